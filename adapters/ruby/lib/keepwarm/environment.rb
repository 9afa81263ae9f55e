# frozen_string_literal: true

require "keepwarm/input"
require "keepwarm/version"
require "keepwarm/wire"

module Keepwarm
  # The Rack environment of a request, but for what depends on its body and its response. Values are binary strings.
  class Environment
    MAX_REMEMBERED = 1_024 # names; clients choose them, so they must not fill the memory
    FIXED = %w[
      REQUEST_METHOD SERVER_PROTOCOL PATH_INFO REQUEST_URI QUERY_STRING SCRIPT_NAME SERVER_NAME SERVER_PORT
      REMOTE_ADDR REMOTE_PORT
    ].freeze
    LOCALHOST, ON, CONTINUE, WEBSOCKET, UPGRADE = %w[localhost on 100-continue websocket Upgrade].map { |value| value.b.freeze }
    # What holds for a request without a body, for a client that takes no hints.
    NO_INPUT = NoInput.new
    NO_HINTS = ->(_headers) {}
    NO_CONTINUE = -> {}
    private_constant :MAX_REMEMBERED, :FIXED, :LOCALHOST, :ON, :CONTINUE, :WEBSOCKET, :UPGRADE

    # `rack`: the version of the application's Rack, `[3, 0]`. `software`: the server's name.
    def initialize(rack:, software:, multithread:, multiprocess:)
      @keys = keys
      # The fixed keys stand in it too, so that a copy already has its final size when they are filled in.
      @base = FIXED.to_h { |key| [key, "".b.freeze] }.merge(
        "rack.url_scheme" => "http",
        "rack.input" => NO_INPUT,
        "rack.errors" => $stderr,
        "rack.multithread" => multithread,
        "rack.multiprocess" => multiprocess,
        "rack.run_once" => false,
        "rack.hijack?" => true,
        "rack.hijack" => nil,
        "rack.early_hints" => NO_HINTS,
        "rack.response_finished" => nil,
        "rack.after_reply" => nil,
        "keepwarm.send_continue" => NO_CONTINUE,
        "GATEWAY_INTERFACE" => "CGI/1.2".b.freeze,
        "SERVER_SOFTWARE" => software.b.freeze
      )
      @base["rack.version"] = [1, 3] if rack[0] < 3
      # Up to Rack 3.0 it is the protocol, as its lint wants it; from 3.1 on it is the client's header `Version`, as any other.
      @protocol_twice = (rack <=> [3, 1]) < 0
      @base["HTTP_VERSION"] = "".b.freeze if @protocol_twice
    end

    # The environment of a REQUEST's strings.
    def for(strings, flags)
      env = @base.dup
      user(env, strings) if flags & Wire::USER != 0
      method, protocol, scheme, path, raw_path, query, script, name, port, address, client_port = strings
      env["REQUEST_METHOD"] = method
      env["SERVER_PROTOCOL"] = protocol
      env["QUERY_STRING"] = query
      env["SERVER_NAME"] = name.empty? ? LOCALHOST : name
      env["SERVER_PORT"] = port.empty? ? default_port(scheme) : port
      env["REMOTE_ADDR"] = address
      env["REMOTE_PORT"] = client_port
      paths(env, path, raw_path, query, script)
      unless scheme == "http"
        env["rack.url_scheme"] = scheme
        env["HTTPS"] = ON if scheme == "https"
      end
      flags & Wire::REPEATS == 0 ? fields(env, strings) : repeated_fields(env, strings)
      env["HTTP_VERSION"] = protocol if @protocol_twice # after the fields: a client's own `Version` must not pass for it
      env["HTTP_EXPECT"] = CONTINUE if flags & Wire::EXPECT != 0
      upgrade(env) if flags & Wire::WEBSOCKET != 0
      env
    end

    private

    # RFC 3875 §4.1.1, §4.1.11: the last two strings, which are not a field.
    def user(env, strings)
      env["REMOTE_USER"] = strings.pop
      auth_type = strings.pop
      env["AUTH_TYPE"] = auth_type unless auth_type.empty?
    end

    # The opening of a WebSocket, for an application that takes the connection over. These fields are the connection's, and did not come with the others.
    def upgrade(env)
      env["HTTP_UPGRADE"] = WEBSOCKET
      env["HTTP_CONNECTION"] = UPGRADE
    end

    # Field name -> its key in the environment, each worked out once.
    def keys
      known = Hash.new do |names, name|
        key = "HTTP_#{name.upcase.tr("-", "_")}".freeze
        names[name] = key if names.size < MAX_REMEMBERED
        key
      end
      # RFC 3875 §4.1.2-3: these two have names of their own.
      known.merge!("content-type" => "CONTENT_TYPE", "content-length" => "CONTENT_LENGTH")
    end

    def fields(env, strings)
      keys = @keys
      at = Wire::FIXED_STRINGS
      size = strings.size
      while at < size
        env[keys[strings[at]]] = strings[at + 1]
        at += 2
      end
    end

    # Joins the values of a field that comes more than once (RFC 9110 §5.3; cookies: RFC 9113 §8.2.3).
    def repeated_fields(env, strings)
      seen = {}
      strings.drop(Wire::FIXED_STRINGS).each_slice(2) do |name, value|
        key = @keys[name]
        env[key] = seen[key] ? (env[key].b << (name == "cookie" ? "; " : ",") << value) : value
        seen[key] = true
      end
    end

    # Rack's paths are percent-encoded: routers and `Rack::Files` decode them.
    def paths(env, path, raw_path, query, script)
      if script.empty?
        env["PATH_INFO"] = raw_path.start_with?("/") ? raw_path : path
      else
        prefix = raw_prefix(raw_path, script)
        env["SCRIPT_NAME"] = prefix
        env["PATH_INFO"] = raw_path.byteslice(prefix.bytesize, raw_path.bytesize)
      end
      env["REQUEST_URI"] = query.empty? ? raw_path.dup : (raw_path.b << "?" << query)
    end

    # The part of the raw path that the script name, which is decoded, stands for: as many segments.
    def raw_prefix(raw_path, script)
      at = 0
      (script.count("/") + 1).times { at = (raw_path.index("/", at) || raw_path.bytesize) + 1 }
      raw_path.byteslice(0, at - 1)
    end

    def default_port(scheme)
      (scheme == "https" ? "443" : "80").b
    end
  end
end
