# frozen_string_literal: true

# Methods that compute and that wait, for the tests of profiles.

TIME = 0.3 # seconds

def cpu
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
end

def compute(seconds = TIME)
  ends = cpu + seconds
  10_000.times.sum while cpu < ends
end

def wait(seconds = TIME)
  sleep seconds
end

def deep(depth)
  depth.zero? ? compute : deep(depth - 1)
end

# A body that computes.
class Computed
  def each
    compute
    yield "done"
  end
end

# A body whose `close` computes.
class Closing < Computed
  def each
    yield "done"
  end

  def close
    compute
  end
end

lambda do |env|
  body = ["done"]
  case env["PATH_INFO"]
  when "/both"
    compute
    wait
  when "/compute" then compute
  when "/wait" then wait
  when "/deep" then deep(400)
  when "/read" then env["rack.input"].read
  when "/streamed" then body = Computed.new
  when "/closing" then body = Closing.new
  end
  [200, {}, body]
end
