# frozen_string_literal: true

# A Rack application that tells who has loaded it, and who serves it.

require "json"

LOADED_BY = Process.pid
HOOKS = [] # rubocop:disable Style/MutableConstant

File.write(ENV.fetch("COUNT_FILE"), "load #{LOADED_BY}\n", mode: "a")
Thread.new { sleep }.name = "metrics-flusher" if ENV["START_THREAD"]

Keepwarm.before_fork { HOOKS << "before #{Process.pid == LOADED_BY}" }
Keepwarm.after_fork do
  raise "no database in this worker" if ENV["FAIL_AFTER_FORK"]

  HOOKS << "after #{Process.pid == LOADED_BY}"
end

run(lambda do |env|
  exit!(7) if env["PATH_INFO"] == "/exit"
  puts "printed by #{Process.pid}" if env["PATH_INFO"] == "/print"
  about = {
    pid: Process.pid, parent: Process.ppid, session: Process.getsid(0), loaded_by: LOADED_BY, hooks: HOOKS,
    worker: ENV.fetch("KEEPWARM_WORKER")
  }
  [200, { "content-type" => "application/json" }, [JSON.generate(about)]]
end)
