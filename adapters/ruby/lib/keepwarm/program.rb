# frozen_string_literal: true

require "rbconfig"

module Keepwarm
  # The program `keepwarm`: where it is, and how to become it, with this Ruby for its workers. A worker never loads this file.
  module Program
    # There is no program `keepwarm`; the message says what to do.
    class NotFound < StandardError; end

    VARIABLE = "KEEPWARM_BIN"
    PLATFORMS = %w[x86_64-linux aarch64-linux].freeze # those that have a gem with the program
    INCLUDED = File.expand_path("../../exe", __dir__)
    private_constant :VARIABLE, :PLATFORMS, :INCLUDED

    module_function

    # Replaces this process by the program. It returns only if it cannot: then it raises `NotFound`.
    #
    # The bundle goes with it (BUNDLE_GEMFILE, RUBYOPT), as all other variables do.
    def exec(*arguments)
      program = find
      # `exec` would take it for a shell's script.
      raise NotFound, "#{program} cannot be run: it is built for another machine; #{advice}" unless machine(program) == machine(RbConfig.ruby)

      variables = worker_variables(arguments)
      $stdout.flush
      $stderr.flush
      Kernel.exec(variables, [program, program], *arguments)
    rescue Errno::ENOENT
      raise NotFound, "#{program} cannot be run: the loader that it is linked to is missing on this system; set #{VARIABLE} to a static program"
    rescue SystemCallError => error
      raise NotFound, "#{program} cannot be run: #{error.message[/\A[^-]+/].strip}; #{advice}"
    end

    # The path of the program: KEEPWARM_BIN, else the one in this gem, else one in PATH.
    def find
      chosen = ENV[VARIABLE].to_s
      unless chosen.empty?
        return File.expand_path(chosen) if program?(chosen)

        raise NotFound, "#{VARIABLE}=#{chosen} is not an executable program; set it to the path of the program `keepwarm`, or unset it"
      end
      [included, *in_path("keepwarm")].find { |path| program?(path) } || raise(NotFound, missing)
    end

    # Where a gem of this platform has the program.
    def included
      File.join(INCLUDED, platform, "keepwarm")
    end

    def platform
      "#{RbConfig::CONFIG["host_cpu"]}-#{RbConfig::CONFIG["host_os"][/\A[a-z]+/]}"
    end

    def in_path(name)
      ENV["PATH"].to_s.split(File::PATH_SEPARATOR).reject(&:empty?).map { |directory| File.join(directory, name) }
    end

    # Whether this is the program itself: a script of this name, which RubyGems and Bundler write, comes here again.
    def program?(path)
      File.file?(path) && File.executable?(path) && File.binread(path, 4) == "\x7FELF".b
    rescue SystemCallError
      false
    end

    def missing
      if PLATFORMS.include?(platform)
        advice = "install the gem of this platform, which has it (in a bundle: `bundle lock --add-platform #{platform}`, then " \
                 "`bundle install`; otherwise `gem install keepwarm`)"
      else
        advice = "build it from source (there are gems with it for #{PLATFORMS.join(" and ")})"
      end
      "program `keepwarm` not found for #{platform}: it is neither in PATH nor in this gem (#{included}); #{advice}, or set #{VARIABLE} to its path"
    end

    # What to do when the program exists and does not start.
    def advice
      "set #{VARIABLE} to one that this system (#{platform}) can run"
    end

    # The machine that an ELF program is for (`e_machine`).
    def machine(program)
      File.binread(program, 2, 18)
    end

    # The variables with which the program starts workers by this Ruby, unless its configuration names another: it takes `ruby` in PATH.
    def worker_variables(arguments)
      return {} if this?(in_path("ruby").find { |path| File.file?(path) && File.executable?(path) })

      directory = File.dirname(RbConfig.ruby)
      if arguments[0] == "run" && !this?(File.join(directory, "ruby"))
        warn "keepwarm: #{directory}/ruby is not #{RbConfig.ruby}, which runs this command; to run workers with it, set the key `interpreter` of the app"
      end
      { "PATH" => [directory, *ENV["PATH"]].join(File::PATH_SEPARATOR) }
    end

    # Whether a program is the Ruby that runs this. A shim of a version manager is not: it chooses again.
    def this?(interpreter)
      interpreter && File.identical?(interpreter, RbConfig.ruby)
    end
    private_class_method :included, :platform, :in_path, :program?, :missing, :advice, :machine, :worker_variables, :this?
  end
end
