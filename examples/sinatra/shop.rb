# frozen_string_literal: true

require "digest/sha2" # "digest" alone loads it at its first use, which two threads must not do at once
require "json"
require "sinatra/base"

# A small shop with the features of a typical web application.
class Shop < Sinatra::Base
  PRODUCTS = [{ id: 1, name: "kettle" }, { id: 2, name: "teapot" }, { id: 3, name: "cup" }].freeze
  SHOWN = %w[
    SERVER_PROTOCOL REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING SERVER_NAME SERVER_PORT REMOTE_ADDR rack.url_scheme
    rack.multithread
  ].freeze

  READERS = []
  READERS_LOCK = Mutex.new

  disable :show_exceptions

  helpers do
    def json(thing)
      content_type :json
      JSON.generate(thing)
    end

    # The size and SHA-256 of a stream, which is never held in memory as a whole.
    def digest(input)
      size = 0
      sha = Digest::SHA256.new
      while (part = input.read(65_536))
        size += part.bytesize
        sha << part
      end
      { size: size, sha256: sha.hexdigest }
    end

    # Records `X-Request-Id`, so that a test can tell whether a request arrived once, twice or not at all.
    def count(id)
      path = ENV.fetch("COUNT_FILE", nil)
      File.open(path, "a") { |file| file.syswrite("#{id}\n") } if path && id
    end
  end

  get "/" do
    "<!doctype html><title>Shop</title><h1>Shop</h1><p>Warm.</p>\n"
  end

  get "/products" do
    json PRODUCTS
  end

  get "/products/:name" do
    json name: params["name"]
  end

  post "/order" do
    json params
  end

  # Any body: size and digest of each uploaded file, or of the body itself.
  post "/upload" do
    next json(digest(request.body)) unless request.media_type == "multipart/form-data"

    files, fields = params.partition { |_, value| value.is_a?(Hash) && value[:tempfile] }
    shown = files.to_h { |name, file| [name, digest(file[:tempfile]).merge(filename: file[:filename])] }
    json files: shown, fields: fields.to_h
  end

  get "/stream" do
    content_type :text
    parts = Integer(params.fetch("parts", 5))
    pause = Float(params.fetch("pause", 0))
    stream do |out|
      parts.times do |number|
        sleep pause if number.positive?
        out << "line #{number}\n"
      end
    end
  end

  # Server-sent events on request: each posted body arrives at every open stream, until one is `end`.
  get "/news" do
    content_type "text/event-stream"
    cache_control :no_cache
    reader = Queue.new
    READERS_LOCK.synchronize { READERS << reader }
    stream do |out|
      piece = "welcome"
      until piece == "end"
        out << "data: #{piece}\n\n"
        piece = reader.pop
      end
    ensure
      READERS_LOCK.synchronize { READERS.delete(reader) }
    end
  end

  post "/news" do
    piece = request.body.read
    READERS_LOCK.synchronize { READERS.each { |reader| reader << piece } }
    204
  end

  get "/gallery" do
    pictures = Array.new(Integer(params.fetch("count", 20))) { |number| %(<img src="/pictures/#{number}.svg" alt="">) }
    "<!doctype html><title>Gallery</title><h1>Gallery</h1>#{pictures.join}\n"
  end

  get "/pictures/:number.svg" do
    content_type :svg
    hue = Integer(params["number"]) * 7 % 360
    %(<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8" fill="hsl(#{hue} 80% 50%)"/></svg>)
  end

  get "/cookies" do
    response.set_cookie("basket", value: "42", httponly: true, same_site: :lax)
    response.set_cookie("theme", value: "dark", max_age: 3600)
    response.set_cookie("seen", "yes")
    json request.cookies
  end

  get "/error" do
    raise "an error on demand"
  end

  get "/error-late" do
    content_type :text
    stream do |out|
      out << "this much came\n"
      raise "an error on demand, late"
    end
  end

  get "/slow" do
    sleep Float(params.fetch("seconds", 1))
    "slept\n"
  end

  post "/count" do
    count(request.get_header("HTTP_X_REQUEST_ID"))
    request.get_header("HTTP_X_REQUEST_ID").to_s
  end

  get "/big" do
    content_type "application/octet-stream"
    "0123456789abcdef" * (Integer(params.fetch("bytes", 1_048_576)) / 16)
  end

  get "/source" do
    send_file __FILE__, type: :text
  end

  get "/moved" do
    redirect to("/"), 303
  end

  # 413 without reading the body: with `Expect: 100-continue` the body is never sent.
  post "/early" do
    halt 413, "too much for this shop\n"
  end

  # Sends `100 Continue` before it reads the body, as an application does that has slow work to do first.
  post "/patient" do
    env["keepwarm.send_continue"]&.call
    json digest(request.body)
  end

  get "/hints" do
    env["rack.early_hints"]&.call("link" => "</shop.css>; rel=preload; as=style")
    "<!doctype html><link rel=stylesheet href=/shop.css>\n"
  end

  get "/whoami" do
    json pid: Process.pid, environ: env.slice(*SHOWN), headers: env.select { |name, _| name.start_with?("HTTP_") }
  end

  # Many headers and four bytes: the response that once took sixteen packets.
  get "/pong" do
    headers((1..12).to_h { |number| ["X-Field-#{number}", "small"] })
    "pong"
  end
end
