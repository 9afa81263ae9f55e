# frozen_string_literal: true

# Faraday: only the connection's URL changes.
require "faraday"
require "json"

search = Faraday.new(url: ENV.fetch("KEEPWARM_UPSTREAM_SEARCH", "https://search.internal:9243")) do |connection|
  connection.options.timeout = 10
  connection.adapter :net_http
end
response = search.get("/documents", q: "warm")
puts "#{response.status} #{response.body}"
puts search.post("/documents", JSON.generate("title" => "Warm"), "Content-Type" => "application/json").body
