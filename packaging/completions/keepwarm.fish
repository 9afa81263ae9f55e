# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_keepwarm_global_optspecs
    string join \n h/help V/version
end

function __fish_keepwarm_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_keepwarm_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_keepwarm_using_subcommand
    set -l cmd (__fish_keepwarm_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c keepwarm -n "__fish_keepwarm_needs_command" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -s V -l version -d 'Print version'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "run" -d 'Serve an application'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "init" -d 'Find the application in a directory and write keepwarm.toml'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "reload" -d 'Reload configuration and workers without losing a request'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "restart" -d 'Replace the workers of apps, or processes, without losing a request'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "status" -d 'Show apps, workers and listeners of the running instance'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "why" -d 'Say what slows the running instance down, with evidence'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "top" -d 'Show apps, workers, routes and upstreams live on a screen'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "stack" -d 'Print the stacks of a worker\'s threads, and log them'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "recycle" -d 'Replace a worker: it leaves once its replacement is ready'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "profile" -d 'Show where an app\'s time goes: a flame graph of its requests'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "leaks" -d 'Show what an app keeps between requests, and by which route'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "maintenance" -d 'Begin or end maintenance: new requests get 503 and a page'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "endpoint" -d 'Take an endpoint of an upstream out of use, or put it back'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "check" -d 'Check any HTTP server for known stalls'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "convert" -d 'Convert the configuration of another server to keepwarm.toml'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "hash-password" -d 'Hash a password for `basic_auth`'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "explain" -d 'Explain a configuration key, an error response, a verdict, a finding or an event of the log'
complete -c keepwarm -n "__fish_keepwarm_needs_command" -f -a "reference" -d 'Print a page of the reference: the configuration\'s keys, or the error responses'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l config -d 'Configuration file [default: keepwarm.toml]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l bind -d 'Address to listen on: HOST:PORT or unix:PATH; may be repeated [default: 127.0.0.1:8080]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -s p -l port -d 'Port to listen on, in place of --bind [default: the variable PORT, else 8080]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l host -d 'Host to listen on, in place of --bind [default: 127.0.0.1; 0.0.0.0 if only the variable PORT is set]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l domain -d 'Serve this name over HTTPS, with a certificate from Let\'s Encrypt; may be repeated [default address: port 443, with 80 for redirects]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l workers -d 'Number of worker processes [default: the variable WEB_CONCURRENCY, else one per core, or one for a command]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l tls-dev -d 'Serve over HTTPS and HTTP/2 with a certificate of a local authority (for development)'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l watch -l reload -d 'Replace workers when a source file of the app changes (for development)'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l dry-run -d 'Check the configuration and the files it names, then exit'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -l boot -d 'With --dry-run: also start one worker of each app, and stop it when it is ready or has failed'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand run" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand init" -l app -d 'Which application to serve, where several are found: a framework, a target or a directory' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand init" -l systemd -d 'Also write a systemd unit'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand init" -l container -d 'Also write a Containerfile'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand init" -l compose -d 'Also write a compose file, and a Containerfile if there is none'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reload" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reload" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reload" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reload" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand restart" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand restart" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand restart" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand restart" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand status" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand status" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand status" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand status" -l json -d 'Print JSON'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand status" -l watch -d 'Refresh every second, until q or Ctrl-C'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand status" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand why" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand why" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand why" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand why" -l json -d 'Print JSON'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand why" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand top" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand top" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand top" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand stack" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand stack" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand stack" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand stack" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand recycle" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand recycle" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand recycle" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand recycle" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l seconds -d 'Seconds to profile, 1 to 600' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l hz -d 'Samples a second, 10 to 1000' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l route -d 'Route to profile, by its pattern in the configuration, as `/search/*` [default: all]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l output -d 'File for the flame graph (SVG) [default: profile-APP.svg]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l collapsed -d 'File for the stacks: a line for each, with its number of samples, as `flamegraph.pl` reads them' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l requests -d 'Requests to measure, 8 to 10000' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l seconds -d 'Seconds to wait for them, 1 to 3600' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l route -d 'Route to report, by its pattern in the configuration, as `/search/*` [default: all]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -l json -d 'Print JSON'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand leaks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and not __fish_seen_subcommand_from on off" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and not __fish_seen_subcommand_from on off" -f -a "on" -d 'Respond with 503 to new requests; requests in progress finish'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and not __fish_seen_subcommand_from on off" -f -a "off" -d 'Serve again; without --app and --listener, end all maintenance'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l app -d 'Only the routes that lead to this app' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l listener -d 'Only the routes of this listener' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l message -d 'Sentence for visitors' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l page -d 'File to send as the page; it is read once' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l allow -d 'Address, or block of addresses, whose clients are served; may be repeated' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l retry-after -d 'Seconds after which clients should retry (`Retry-After`)' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from on" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from off" -l app -d 'Only the routes that lead to this app' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from off" -l listener -d 'Only the routes of this listener' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from off" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from off" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from off" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand maintenance; and __fish_seen_subcommand_from off" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and not __fish_seen_subcommand_from drain ready" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and not __fish_seen_subcommand_from drain ready" -f -a "drain" -d 'Take an endpoint out of use: it finishes its calls and gets no more'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and not __fish_seen_subcommand_from drain ready" -f -a "ready" -d 'Put a drained endpoint back into use'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from drain" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from drain" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from drain" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from drain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from ready" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from ready" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from ready" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand endpoint; and __fish_seen_subcommand_from ready" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l config -d 'Configuration file of the instance to control [default: the one started in this directory]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l pid -d 'Process id of the instance to control' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l pid-file -d 'Pid file of the instance to control (its `server.pid_file`)' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l only -d 'Run only these probes; may be repeated' -r -f -a "persistence\t'connection keep-alive and close'
expect\t'response to Expect: 100-continue'
writes\t'packets per response'
boot\t'app boot on each request'
connect\t'cost of a new connection'
framing\t'message framing per RFC 9112'
health\t'health checks of load balancers'
informational\t'103 Early Hints and trailers'
ladder\t'timeouts of chained servers'"
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l skip -d 'Skip these probes; may be repeated' -r -f -a "persistence\t'connection keep-alive and close'
expect\t'response to Expect: 100-continue'
writes\t'packets per response'
boot\t'app boot on each request'
connect\t'cost of a new connection'
framing\t'message framing per RFC 9112'
health\t'health checks of load balancers'
informational\t'103 Early Hints and trailers'
ladder\t'timeouts of chained servers'"
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l fail-on -d 'Exit with status 1 if a verdict is this bad or worse' -r -f -a "warning\t''
bad\t''"
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -s H -l header -d 'Header to send with every request, for example \'Authorization: Bearer x\'; may be repeated' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l method -d 'Method of ordinary requests: GET, HEAD, OPTIONS, or POST together with --post' -r -f -a "GET\t''
HEAD\t''
OPTIONS\t''
POST\t''"
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l body -d 'Body to send where a probe needs one: a text, or @FILE' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l resolve -d 'Use ADDRESS for HOST:PORT instead of resolving the name; may be repeated' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l ca -d 'File of certificate authorities (PEM) to trust in addition to the system\'s' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l cert -d 'Client certificate (PEM) for a server that requests one; needs --key' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l key -d 'Private key of --cert' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l timeout -d 'Timeout of a single step' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l rate -d 'Maximum number of requests per second' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l post -d 'Path that may be requested with POST; without it, only safe methods are used' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l via -d 'URL that directly reaches a server behind the first one; may be repeated, outermost first' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l self -d 'Examine the running Keepwarm instead of URLs: its listeners, upstreams and doors (`bind` addresses of upstreams)'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l json -d 'Print JSON: an object for one URL, an array for several'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -s v -l verbose -d 'Show all findings, also the good ones, and the traffic on the wire (on standard error)'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -s k -l insecure -d 'Accept a certificate that cannot be verified, and report it'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l slow -d 'Also measure when an idle connection is closed, which takes minutes'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -l intrusive -d 'Also send malformed messages, which could harm a fragile server'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l from -d 'Tool that all files are of, if it is not recognized' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l out -d 'File to write, which must not exist [default: standard output]' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l root -d 'Directory that stands for / of the machine whose files these are' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l verify -d 'Compare the responses of two servers to the same GETs, in place of converting' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l log -d 'With --verify: access log whose GETs are sent, in place of a crawl from the path of OLD' -r -F
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l host -d 'With --verify: host to request of both servers [default: that of OLD]' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -l max -d 'With --verify: number of paths to request at most' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -s v -l verbose -d 'List every directive in the report'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand convert" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand hash-password" -l user -d 'Print `USER:HASH`, a line of the file of `basic_auth.file`' -r
complete -c keepwarm -n "__fish_keepwarm_using_subcommand hash-password" -l bcrypt -d 'Hash by bcrypt, for files that other programs read too'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand hash-password" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand explain" -s h -l help -d 'Print help'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reference" -l schema -d 'Print the keys as a JSON schema'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reference" -l errors -d 'Print the error responses'
complete -c keepwarm -n "__fish_keepwarm_using_subcommand reference" -s h -l help -d 'Print help'
