# frozen_string_literal: true

require "keepwarm/version"

module Keepwarm
  # What `rackup -s keepwarm` does: it replaces this process with `keepwarm run`. Keepwarm starts its own workers, which
  # load the application from its rackup file; an application that only lives in this process cannot be handed to them.
  module Handler
    PROGRAM = "keepwarm"
    private_constant :PROGRAM

    module_function

    def run(_app = nil, **options)
      if defined?(::Keepwarm::CommandLine)
        raise "this process is already a worker of Keepwarm: end config.ru with `run` and the application, and do not start a server"
      end
      exec(*command(options))
    rescue Errno::ENOENT
      raise "program `keepwarm` not found in PATH: install Keepwarm, then try again"
    end

    def valid_options
      { "Host=HOST" => "address to listen on (default: 127.0.0.1)", "Port=PORT" => "port to listen on (default: 8080)" }
    end

    # The command line that corresponds to these options of `rackup`.
    def command(options)
      file = options[:config]
      unless file && File.file?(file)
        raise "Keepwarm loads the application from a file, in its own processes: write a config.ru, then run `keepwarm run config.ru`"
      end
      host = options[:Host] || "127.0.0.1"
      host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
      [PROGRAM, "run", file, "--bind", "#{host}:#{options[:Port] || 8080}"]
    end
  end
end
