# frozen_string_literal: true

# Unicorn's convention: an application that responds with 100 is called again, without `HTTP_EXPECT`, while the client sends the body.
#
# Under Unicorn an application needs this for clients that wait for `100 Continue`. Under Keepwarm reading the body is enough,
# but applications that rely on the convention keep working.
class Continue
  def initialize(app)
    @app = app
  end

  def call(env)
    return [100, {}, []] if env["PATH_INFO"] == "/unicorn" && /\A100-continue\z/i.match?(env["HTTP_EXPECT"].to_s)
    return @app.call(env) unless env["PATH_INFO"] == "/unicorn"

    [200, { "content-type" => "text/plain" }, ["read #{env["rack.input"].read.bytesize}, expect #{env["HTTP_EXPECT"].inspect}\n"]]
  end
end
