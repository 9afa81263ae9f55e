# frozen_string_literal: true

require "keepwarm/program"
require "keepwarm/version"

module Keepwarm
  # What `rackup -s keepwarm` and `rails server -u keepwarm` do: this process becomes `keepwarm run`, so signals and the exit
  # status are Keepwarm's. It starts its own workers, which load the application from its rackup file; an application that only
  # lives in this process cannot be handed to them.
  module Handler
    module_function

    def run(_app = nil, **options)
      if defined?(::Keepwarm::CommandLine)
        raise "this process is already a worker of Keepwarm: end config.ru with `run` and the application, and do not start a server"
      end
      leave_root(options)
      line = arguments(options)
      set_environment(options)
      Program.exec(*line)
    rescue Program::NotFound => error
      abort "keepwarm: #{error.message}"
    end

    def valid_options
      {
        "Host=HOST" => "address to listen on, or the path of a Unix socket (default: 127.0.0.1)",
        "Port=PORT" => "port to listen on (default: 8080)",
        "Workers=N" => "number of worker processes (default: one per core)"
      }
    end

    # The arguments of `keepwarm` that correspond to these options of `rackup`.
    def arguments(options)
      file = options[:config]
      unless file && File.file?(file)
        raise "Keepwarm loads the application from a file, in its own processes: write a config.ru, then run `keepwarm run config.ru`"
      end
      workers = options[:Workers] ? ["--workers", options[:Workers].to_s] : []
      ["run", file, "--bind", address(options), *workers]
    end

    def address(options)
      host = options[:Host] || "127.0.0.1"
      return "unix:#{host}" if host.start_with?("/", ".")

      host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
      "#{host}:#{options[:Port] || 8080}"
    end

    # Workers of one environment, that which was given: `rackup` and `rails server` have set one of these already.
    def set_environment(options)
      return if options[:environment].nil? || ENV["RACK_ENV"] || ENV["RAILS_ENV"]

      ENV["RACK_ENV"] = options[:environment].to_s
    end

    # A daemon's directory is `/`, where relative paths lead nowhere and the workers would run.
    def leave_root(options)
      return unless options[:daemonize]

      rails = ::Rails.root if defined?(::Rails.root)
      Dir.chdir(rails || File.dirname(options[:config].to_s))
    end
    private_class_method :address, :set_environment, :leave_root
  end
end
