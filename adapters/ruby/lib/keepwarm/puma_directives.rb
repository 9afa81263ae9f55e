# frozen_string_literal: true

module Keepwarm
  # What a configuration file of Puma may say, in Puma 5, 6 and 7. Each directive is one of Keepwarm's keys, a hook, something that has no meaning here, or
  # something that has another name here, which is said.
  class PumaDirectives
    # Not constants: the file would see them as its own.
    #
    # Directive => list in `Hooks`.
    hooks = {
      before_fork: :BEFORE_FORK, on_worker_fork: :BEFORE_EACH_FORK, before_worker_fork: :BEFORE_EACH_FORK,
      after_worker_fork: :AFTER_WORKER_FORK, after_worker_boot: :AFTER_WORKER_FORK,
      on_worker_boot: :AFTER_FORK, before_worker_boot: :AFTER_FORK,
      on_worker_shutdown: :BEFORE_SHUTDOWN, before_worker_shutdown: :BEFORE_SHUTDOWN,
      on_thread_start: :THREAD_START, before_thread_start: :THREAD_START,
      on_thread_exit: :THREAD_EXIT, before_thread_exit: :THREAD_EXIT,
      on_booted: :BOOTED, after_booted: :BOOTED,
      on_stopped: :STOPPED, after_stopped: :STOPPED
    }

    # Puma's internals, its output, or what Keepwarm always does.
    silent = %i[
      clean_thread_locals clear_binds! custom_logger debug default_host drain_on_shutdown early_hints enable_keep_alives extra_runtime_dependencies
      fork_worker io_selector_backend log_formatter log_requests max_fast_inline max_io_threads max_keep_alive mutate_stdout_and_stderr_to_sync_on_write
      nakayoshi_fork prune_bundler queue_requests quiet raise_exception_on_sigterm restart_command set_default_host shutdown_debug
      silence_fork_callback_warning silence_single_worker_warning state_permission supported_http_methods tag wait_for_less_busy_worker
      worker_check_interval worker_culling_strategy
    ]

    # Directive => what to write instead.
    elsewhere = {
      activate_control_app: "`[admin]` of keepwarm.toml has status and metrics",
      app: "`keepwarm run FILE` names the application",
      bind_to_activated_sockets: "Keepwarm uses the sockets of systemd without a setting",
      first_data_timeout: "write `head_timeout` under `[server.limits]`",
      http_content_length_limit: "write `body` under `[server.limits]`",
      lowlevel_error_handler: "the response to an unrescued error is a page with status 500",
      on_refork: "Keepwarm does not fork workers from a worker",
      before_refork: "Keepwarm does not fork workers from a worker",
      on_restart: "`keepwarm reload` replaces the workers; `on_worker_shutdown` runs in each",
      before_restart: "`keepwarm reload` replaces the workers; `on_worker_shutdown` runs in each",
      out_of_band: "use `rack.after_reply` or `rack.response_finished`",
      persistent_timeout: "write `idle_timeout` under `[server.limits]`",
      pidfile: "write `pid_file` under `[server]`",
      rack_url_scheme: "write `trusted_proxies` under `[server]`",
      set_remote_address: "write `trusted_proxies` under `[server]`",
      ssl_bind: "put a proxy that terminates TLS in front of Keepwarm",
      state_path: "`keepwarm status` needs no file",
      stdout_redirect: "write `log = { file = … }` under `[server]`"
    }

    seconds = { worker_timeout: "worker_timeout", worker_boot_timeout: "boot_timeout", worker_shutdown_timeout: "drain_timeout" }

    hooks.each do |name, list|
      define_method(name) { |*_arguments, &block| @config.hook(list, block) }
    end

    silent.each do |name|
      define_method(name) { |*_arguments, **_options| nil }
    end

    elsewhere.each do |name, advice|
      define_method(name) { |*_arguments, **_options, &_block| @config.remark("`#{name}` is not used: #{advice}") }
    end

    seconds.each do |name, key|
      define_method(name) { |seconds| whole(name, seconds) { |number| @config.set(key, number) } }
    end

    def initialize(config)
      @config = config
      @options = {} # that of Puma's own object, which some files look into
    end

    def threads(min, max = min)
      whole(:threads, min) { whole(:threads, max) { |number| @config.set("threads", [number, 1].max) } }
    end

    def workers(count)
      return @config.set("workers", "auto") if count.to_s == "auto"

      whole(:workers, count) { |number| @config.set("workers", [number, 1].max) }
    end

    def preload_app!(answer = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's
      @config.set("preload", answer ? true : false)
    end

    def environment(name)
      @config.set("environment", name)
    end

    def directory(path)
      @config.set("directory", File.expand_path(path.to_s))
    end

    def force_shutdown_after(seconds = :forever)
      return @config.set("drain_timeout", 0) if seconds.to_s == "immediately"

      whole(:force_shutdown_after, seconds) { |number| @config.set("drain_timeout", number) } unless seconds.to_s == "forever"
    end

    def rackup(path)
      @config.remark("`rackup` is not used: `keepwarm run #{path}` names the application")
    end

    def port(number, host = nil)
      address = "#{host || "0.0.0.0"}:#{number}"
      @config.remark("`port` is not used: write `--bind #{address}`, or `bind = \"#{address}\"` under `[listen.NAME]`")
    end

    def bind(url)
      return ssl_bind if url.to_s.start_with?("ssl://")

      address = url.to_s.sub(%r{\Atcp://}, "").sub(%r{\Aunix://}, "unix:").sub(/\?.*\z/, "")

      @config.remark("`bind` is not used: write `--bind #{address}`, or `bind = \"#{address}\"` under `[listen.NAME]`")
    end

    def plugin(name)
      instead = { "tmp_restart" => "`keepwarm reload` restarts the workers", "solid_queue" => "run `bin/jobs` as a separate service" }
      @config.remark("`plugin :#{name}` is not used#{instead[name.to_s]&.then { |text| ": #{text}" }}")
    end

    def load(path)
      @config.load(path)
    end

    def get(name, default = nil)
      @config.settings.fetch(name.to_s, default)
    end

    def inject
      nil
    end

    def respond_to_missing?(_name, _private = false) # rubocop:disable Style/OptionalBooleanParameter -- Ruby's
      true
    end

    def method_missing(name, *_arguments, **_options)
      @config.remark("`#{name}` is not used: unknown directive")
      nil
    end

    private

    def whole(name, value)
      yield Integer(value)
    rescue ArgumentError, TypeError
      @config.remark("`#{name}` is not used: #{value.inspect} is not a number")
    end
  end
end
