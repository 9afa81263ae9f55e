# What an application with a configuration of Puma sees of it.
require "json"

run(lambda do |env|
  seen = { pid: Process.pid, hook: $hook, threads: env["rack.multithread"], processes: env["rack.multiprocess"], env: ENV["RACK_ENV"], stats: Keepwarm.stats }
  [200, { "Content-Type" => "application/json" }, [JSON.generate(seen)]]
end)
