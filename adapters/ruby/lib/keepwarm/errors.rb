# frozen_string_literal: true

module Keepwarm
  # The client has gone: nobody waits for this response, or the rest of its body will not come.
  #
  # Raised by reads of `rack.input` and by writes to the stream of a callable body. It is not an error of the application: when
  # it comes back out of it, nothing is logged.
  class ClientDisconnected < IOError; end

  # Keepwarm broke the wire's rules (spec/wire.md §2). The connection cannot go on.
  #
  # `name` is one of those in spec/vectors/README.md; the message says what was seen.
  class Fault < StandardError
    attr_reader :name

    def initialize(name, message)
      super(message)
      @name = name
    end
  end

  # The wire has reached its end: Keepwarm is gone, or gave this worker up (spec/wire.md §1).
  class Lost < StandardError; end

  # The entry does not give an application that can be served. The message is whole sentences for the user.
  class EntryError < StandardError; end

  # Whether the process is to end by what an application raised. The rest is a record in the log.
  def self.ends_process?(error)
    !error.is_a?(StandardError) && !error.is_a?(ScriptError)
  end
end
