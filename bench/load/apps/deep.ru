# frozen_string_literal: true

def deep(depth)
  depth.zero? ? 50_000.times.sum : deep(depth - 1)
end

run(->(env) { [200, { "content-type" => "text/plain" }, [deep(env["QUERY_STRING"].to_i).to_s]] })
