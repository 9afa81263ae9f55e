# frozen_string_literal: true

# The service of auth_wsgi.py for Rack.

SEEN = %w[X-Original-Method X-Original-URI X-Original-URL X-Forwarded-Method X-Forwarded-Uri
          X-Forwarded-For Content-Length Content-Type Range If-None-Match Remote-User].freeze

def decide(env)
  field = lambda do |name|
    name = name.upcase.tr("-", "_")
    env[name.start_with?("CONTENT_") ? name : "HTTP_#{name}"].to_s
  end
  seen = [env["REQUEST_METHOD"], *SEEN.map(&field)].join("|")
  case field.call("Authorization")
  when "Bearer good"
    [200, { "remote-user" => "jo", "x-auth-groups" => "staff", "x-auth-seen" => seen }, ["welcome"]]
  when "Bearer silent" then [200, {}, [""]]
  when "Bearer login" then [302, { "location" => "https://login.example/", "set-cookie" => %w[a=1 b=2] }, ["go"]]
  else [401, { "www-authenticate" => 'Bearer realm="x"', "x-auth-seen" => seen }, ["who are you?"]]
  end
end

run ->(env) { decide(env) }
