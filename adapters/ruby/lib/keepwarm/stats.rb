# frozen_string_literal: true

module Keepwarm
  # What this worker is doing, in the words of `Puma.stats`. The queue before the workers is Keepwarm's: `GET /stats` of the admin address has it.
  #
  # Where the application has loaded Puma, `Puma.stats` and `Puma.stats_hash` say the same.
  module Stats
    # For `Puma.stats_object=`.
    module Source
      module_function

      def stats
        Stats.current
      end
    end

    @source = nil
    @started = Time.now

    module_function

    # `source`: gives `[backlog, busy, threads, requests]`.
    def begin(source)
      @source = source
      @started = Time.now
      ::Puma.stats_object = Source if defined?(::Puma) && ::Puma.respond_to?(:stats_object=)
    end

    def current
      backlog, busy, threads, requests = @source ? @source.call : [0, 0, 0, 0]
      {
        started_at: @started.utc.strftime("%Y-%m-%dT%H:%M:%SZ"), backlog: backlog, running: threads, pool_capacity: [threads - busy, 0].max,
        max_threads: threads, requests_count: requests, busy_threads: busy
      }
    end
  end

  # The numbers of this worker, with the keys of `Puma.stats_hash`.
  def self.stats
    Stats.current
  end
end
