# frozen_string_literal: true

require "keepwarm/log"

# What an application with `preload` does around the fork of a worker:
#
#     Keepwarm.after_fork { ActiveRecord::Base.establish_connection }
#
# `before_fork` blocks run in the template before each fork, in reverse order; `after_fork` blocks in the new worker before it
# takes requests, in order. One that raises in the worker ends it as a failed start. Without `preload`, `after_fork` runs
# when a worker starts.
module Keepwarm
  def self.before_fork(&block)
    Hooks::BEFORE_FORK << block
  end

  def self.after_fork(&block)
    Hooks::AFTER_FORK << block
  end

  # The blocks that were given.
  module Hooks
    BEFORE_FORK = [] # rubocop:disable Style/MutableConstant
    AFTER_FORK = [] # rubocop:disable Style/MutableConstant

    module_function

    def before_fork
      BEFORE_FORK.reverse_each(&:call)
    end

    # Runs the blocks in a new worker; whether they all worked. The reason is in the log.
    def after_fork_worked?
      AFTER_FORK.each(&:call)
      true
    rescue Exception => error # rubocop:disable Lint/RescueException -- one that exits has failed too
      Log.exception(error)
      Log.write("keepwarm: an `after_fork` block of the application failed.")
      false
    end
  end
end
