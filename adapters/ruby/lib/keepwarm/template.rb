# frozen_string_literal: true

require "socket"
require "keepwarm/hooks"
require "keepwarm/log"
require "keepwarm/worker_process"

module Keepwarm
  # The template of `preload`: loads the application once, and forks a worker for each order (spec/wire.md §9).
  class Template
    LINE = 4_096
    DESCRIPTORS = 3 # beside a fork: wire, standard output, standard error
    private_constant :LINE, :DESCRIPTORS

    # Forks workers on order. Returns only in each of them, with its wire's socket; the template itself exits.
    def self.serve(control)
      new(control).serve
    end

    # The threads that a fork will lack, described. Those marked as Rails and Puma do it are left out: their owners know.
    def self.lost_threads
      others = Thread.list.reject { |thread| thread == Thread.main || thread.thread_variable_get(:fork_safe) }
      others.map { |thread| "#{thread.name || thread.inspect} (#{thread.backtrace&.first || thread.status})" }.sort
    end

    def initialize(control)
      @control = control
      @buffer = +""
      @descriptors = []
    end

    def serve
      warn_of_threads
      WorkerProcess.settle_memory
      say("ready")
      Hooks.booted
      loop do
        receive
        while (line = @buffer.slice!(/\A[^\n]*\n/))
          wire = obey(line.chomp)
          return wire if wire
        end
      end
    end

    private

    # As Puma does it: Ruby releases what the others had locked, and most of them are started again when they are needed.
    def warn_of_threads
      lost = Template.lost_threads
      return if lost.empty?

      Log.write("keepwarm: preload: the application started #{lost.size == 1 ? "a thread" : "#{lost.size} threads"} while loading, " \
                "which its workers will not have: #{lost.join(", ")}; start them in a `Keepwarm.after_fork` block, " \
                "or mark those that workers do not need with `thread_variable_set(:fork_safe, true)`")
    end

    def receive
      data, _, _, *controls = @control.recvmsg(LINE, 0, nil, scm_rights: true)
      leave if data.nil? || data.empty?
      @buffer << data
      controls.each { |control| @descriptors.concat(control.unix_rights || []) }
    rescue SystemCallError
      leave
    end

    # The wire's socket in a new worker, nil in the template.
    def obey(line)
      word, number = line.split(" ", 2)
      case word
      when "fork" then return fork_worker(Integer(number, 10), @descriptors.shift(DESCRIPTORS))
      when "reap" then say(status_of(Integer(number, 10)))
      else
        Log.write("unexpected message on the template's socket: #{line.inspect}")
        exit!(1)
      end
      nil
    end

    def fork_worker(number, given)
      pid = forked(number)
      return enter(number, given) if pid&.zero?

      given.each(&:close)
      return if pid.nil?

      say("forked #{pid}")
      Hooks.after_worker_fork(number)
      nil
    end

    # The new worker's id, 0 in it, nil when there is none.
    def forked(number)
      Hooks.before_fork(number)
      [$stdout, $stderr].each(&:flush)
      Process.fork || 0
    rescue StandardError, NotImplementedError => error
      Log.exception(error)
      say("refused #{error.class}: #{error.message}".scrub.tr("\n", " ").byteslice(0, LINE - 1).scrub(""))
      nil
    end

    def enter(number, given)
      Process.setsid
      @control.close
      wire, stdout, stderr = given
      STDOUT.reopen(stdout)
      STDERR.reopen(stderr)
      [stdout, stderr].each(&:close)
      Log.prepare_streams
      ENV["KEEPWARM_WORKER"] = number.to_s
      wire.autoclose = false
      UNIXSocket.for_fd(wire.fileno).tap { |socket| socket.close_on_exec = true }
    end

    def status_of(pid)
      _, status = Process.wait2(pid)
      return "ended #{pid} exit #{status.exitstatus}" unless status.signaled?

      "ended #{pid} signal #{status.termsig}#{" core" if status.coredump?}"
    end

    def say(line)
      @control.write("#{line}\n")
    rescue SystemCallError
      leave
    end

    # Keepwarm has gone, or needs this process no more. What the application registered for its end belongs to its workers.
    def leave
      Hooks.stopped
      exit!(0)
    end
  end
end
