# frozen_string_literal: true

require "keepwarm/log"

# What an application does around the life of a worker:
#
#     Keepwarm.after_fork { ActiveRecord::Base.establish_connection }
#
# `before_fork` blocks run in the template before each fork, in reverse order, `after_worker_fork` blocks in the template after it; `after_fork`
# blocks in the new worker before it takes requests, in order; `before_worker_shutdown` blocks in the worker after its last request. One of
# `after_fork` that raises ends the worker as a failed start. Without `preload`, `after_fork` runs when a worker starts.
#
# The names of Puma work too. Each block may take the number of the worker, as Puma's do. `before_thread_start` and `before_thread_exit` blocks run in each
# thread that serves requests.
module Keepwarm
  class << self
    def before_fork(&block)
      Hooks::BEFORE_FORK << block
    end

    def after_worker_fork(&block)
      Hooks::AFTER_WORKER_FORK << block
    end

    def after_fork(&block)
      Hooks::AFTER_FORK << block
    end

    def before_worker_shutdown(&block)
      Hooks::BEFORE_SHUTDOWN << block
    end

    def before_thread_start(&block)
      Hooks::THREAD_START << block
    end

    def before_thread_exit(&block)
      Hooks::THREAD_EXIT << block
    end

    alias on_thread_start before_thread_start
    alias on_thread_exit before_thread_exit
    alias on_worker_fork before_fork
    alias before_worker_fork before_fork
    alias after_worker_boot after_worker_fork
    alias on_worker_boot after_fork
    alias before_worker_boot after_fork
    alias on_worker_shutdown before_worker_shutdown
  end

  # The blocks that were given.
  module Hooks
    BEFORE_FORK = [] # rubocop:disable Style/MutableConstant
    AFTER_WORKER_FORK = [] # rubocop:disable Style/MutableConstant
    AFTER_FORK = [] # rubocop:disable Style/MutableConstant
    BEFORE_SHUTDOWN = [] # rubocop:disable Style/MutableConstant
    THREAD_START = [] # rubocop:disable Style/MutableConstant
    THREAD_EXIT = [] # rubocop:disable Style/MutableConstant
    # Puma's process that starts the workers runs these; here it is the template, else the first worker.
    BOOTED = [] # rubocop:disable Style/MutableConstant
    STOPPED = [] # rubocop:disable Style/MutableConstant

    module_function

    def before_fork(number)
      BEFORE_FORK.reverse_each { |block| run(block, number) }
    end

    # The worker is there, whatever these raise.
    def after_worker_fork(number)
      run_each(AFTER_WORKER_FORK, number)
    end

    # Runs the blocks in a new worker; whether they all worked. The reason is in the log.
    def after_fork_worked?
      AFTER_FORK.each { |block| run(block, own_number) }
      true
    rescue Exception => error # rubocop:disable Lint/RescueException -- one that exits has failed too
      Log.exception(error)
      Log.write("keepwarm: an `after_fork` block of the application failed")
      false
    end

    def before_shutdown
      run_each(BEFORE_SHUTDOWN, own_number)
    end

    def thread_start
      run_each(THREAD_START, own_number)
    end

    def thread_exit
      run_each(THREAD_EXIT, own_number)
    end

    # The process that the application takes for Puma's first is ready, and about to end.
    def booted
      run_each(BOOTED, own_number)
    end

    def stopped
      run_each(STOPPED, own_number)
    end

    def first_worker?
      own_number <= 1
    end

    def run_each(blocks, number)
      blocks.each do |block|
        run(block, number)
      rescue StandardError, ScriptError => error
        Log.exception(error)
      end
    end

    def run(block, number)
      block.lambda? && block.arity.zero? ? block.call : block.call(number)
    end

    def own_number
      ENV["KEEPWARM_WORKER"].to_i
    end
    private_class_method :run_each, :run, :own_number
  end
end
