# frozen_string_literal: true

class LiveController < ApplicationController
  include ActionController::Live

  # Server-sent events, each at once: the second waits for a file, which the client makes when it has the first.
  def index
    response.headers["Content-Type"] = "text/event-stream"
    response.headers["Last-Modified"] = Time.now.httpdate # `Rack::ETag` would read the whole stream
    events = SSE.new(response.stream, event: "tick")
    events.write({ number: 1 })
    wait_for(params[:file]) if params[:file]
    events.write({ number: 2 })
  ensure
    events&.close
  end

  private

  def wait_for(name)
    file = Rails.root.join("tmp", File.basename(name))
    3_000.times { File.exist?(file) ? break : sleep(0.01) }
  end
end
