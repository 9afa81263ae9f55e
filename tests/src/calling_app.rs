//! An app that calls the door of `[upstream.search]` while it handles a request, once it is released.

use std::path::Path;

/// Its section of a configuration. It runs in the server's own directory.
pub const APP: &str = "[app.app]\nentry = \"caller:application\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n";

/// What it prints when it gets a request.
pub const STARTED: &str = "begun";

/// Writes it into the directory of a server that is about to start.
pub fn write(folder: &Path) {
    std::fs::write(folder.join("caller.py"), CODE).expect("written");
}

/// Lets it call.
pub fn release(folder: &Path) {
    std::fs::write(folder.join("call"), "").expect("written");
}

const CODE: &str = "import os, time, urllib.request
door = os.environ['KEEPWARM_UPSTREAM_SEARCH']
def application(environ, start_response):
    print('begun', flush=True)
    while not os.path.exists('call'):
        time.sleep(0.02)
    body = urllib.request.urlopen(door + '/call', timeout=10).read()
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [body]
";
