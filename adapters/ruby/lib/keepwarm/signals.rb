# frozen_string_literal: true

require "keepwarm/log"

module Keepwarm
  # Signal handlers of the application (`trap`).
  #
  # Ruby runs a handler as soon as the system call that the signal interrupted has returned, also in the middle of a write, and
  # `Thread.handle_interrupt` holds back none of what it raises. Half a frame would be on the wire. So a handler runs at once, and what it raises
  # goes to the connection, which knows what is in work.
  module Signals
    ORIGINAL = ::Signal.method(:trap)
    HANDLERS = {}.compare_by_identity # what Ruby calls => what the application set
    private_constant :ORIGINAL, :HANDLERS

    # Replaces `Signal.trap` and `Kernel.trap`.
    module Public
      def trap(...)
        Signals.set(...)
      end
    end

    # Replaces `trap` without a receiver.
    module Private
      private

      def trap(...)
        Signals.set(...)
      end
    end

    @connection = nil

    module_function

    # From now on every handler that is set by `trap` is under this rule.
    def watch
      [::Signal, ::Kernel].each { |one| one.singleton_class.prepend(Public) }
      ::Kernel.prepend(Private)
    end

    # Exceptions of handlers are passed to this connection, by its `interrupted`.
    def report_to(connection)
      @connection = connection
    end

    # As `trap`: gives the handler that was set before.
    def set(signal, *command, &block)
      handler = command.empty? ? block : command.first
      return its_own(ORIGINAL.call(signal, *command, &block)) if command.size > 1 || !handler.respond_to?(:call)

      guarded = proc { |*arguments| run(handler, arguments) }
      HANDLERS[guarded] = handler
      its_own(ORIGINAL.call(signal, guarded))
    end

    def run(handler, arguments)
      handler.call(*arguments)
    rescue Exception => error # rubocop:disable Lint/RescueException -- `exit` in a handler is one too
      raise if @connection.nil?

      @connection.interrupted(error)
    end

    # What the application had set, for a handler that is replaced.
    def its_own(handler)
      HANDLERS.delete(handler) || handler
    end
    private_class_method :run, :its_own
  end
end
