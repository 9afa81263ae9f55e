# frozen_string_literal: true

# The least a Rack application can do: 13 bytes with a length.
run ->(_env) { [200, { "content-type" => "text/plain", "content-length" => "13" }, ["Hello, world!"]] }
