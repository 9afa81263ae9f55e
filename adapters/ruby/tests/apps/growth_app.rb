# frozen_string_literal: true

require "set"

# Each path keeps something, or nothing, for the tests of what a worker keeps.

$kept = {}
@on_main = []

module Shop
  CARTS = []
  BY_NAME = { "carts" => {}, "prices" => [] }
  PRIVATE = []
  private_constant :PRIVATE
  autoload :Never, "#{__dir__}/there_is_no_such_file.rb"

  # What the paths keep.
  class Item
    def initialize(name)
      @name = name
    end
  end

  # A list with nodes of its own.
  Link = Struct.new(:item, :rest)

  # A service with a cache.
  class Cache
    def initialize
      @entries = {}
      @keys = Set.new
    end

    def keep(key)
      @entries[key] = "entry #{key}"
      @keys << key
    end
  end

  # One in a hierarchy.
  class Page
    @@seen = []
    @views = []
    class << self
      attr_reader :views
    end

    def self.see(page)
      @@seen << page
    end

    # None of its own may be called.
    def self.name
      raise "Page.name was called"
    end

    def self.constants(*)
      raise "Page.constants was called"
    end
  end

  # What it is set to, a method gives that has closed over it, as with Sinatra's `set` and Rails' `class_attribute`.
  class Settings
    def self.set(name, value)
      define_singleton_method(name) { value }
    end

    set :notes, []
  end

  # All that an application may override raises.
  class Odd < BasicObject
    def method_missing(name, *)
      ::Kernel.raise "Odd##{name} was called"
    end

    def respond_to_missing?(*)
      true
    end
  end

  ODD = Odd.new

  # A class whose name would load a file, as when a framework reloads: an object of the old one is still there.
  class Reloaded
    @pages = []
    # What was in it.
    class Inner
      @pages = []
    end
  end

  OLD = [Reloaded.new, Reloaded::Inner.new]
  remove_const :Reloaded
  autoload :Reloaded, "#{__dir__}/there_is_no_such_file.rb"
  SERVICE = Cache.new
  QUEUE = Queue.new
  LINKS = [nil]
end

def cycle
  first = Shop::Link.new(Shop::Item.new("cycle"))
  first.rest = Shop::Link.new("other", first)
end

# Keeps what it has written, in an instance.
class Middleware
  def initialize(app)
    @app = app
    @seen = []
  end

  def call(env)
    @seen << env["PATH_INFO"].dup if env["PATH_INFO"] == "/middleware"
    @app.call(env)
  end
end

closed_over = []
number = 0
keep = {
  "/global" => -> { $kept["key #{number}"] = Shop::Item.new("global") },
  "/main" => -> { TOPLEVEL_BINDING.receiver.instance_variable_get(:@on_main) << number },
  "/constant" => -> { Shop::CARTS << Shop::Item.new("constant") },
  "/nested" => -> { Shop::BY_NAME["carts"][number] = "cart #{number}" },
  "/private" => -> { Shop.module_eval { const_get(:PRIVATE) } << "private #{number}" },
  "/class_variable" => -> { Shop::Page.see("class variable #{number}") },
  "/class_instance" => -> { Shop::Page.views << "class instance #{number}" },
  "/service" => -> { Shop::SERVICE.keep("service #{number}") },
  "/settings" => -> { Shop::Settings.notes << "note #{number}" },
  "/chain" => -> { 110_000.times { Shop::LINKS[0] = Shop::Link.new(nil, Shop::LINKS[0]) } },
  "/queue" => -> { Shop::QUEUE << "queue #{number}" },
  "/closure" => -> { closed_over << "closure #{number}" },
  "/thread" => -> { (Thread.current[:kept] ||= []) << number },
  "/thread_variable" => -> { Thread.current.thread_variable_set(:kept, (Thread.current.thread_variable_get(:kept) || []) + [number]) },
  "/list" => -> { Shop::LINKS[0] = Shop::Link.new(Shop::Item.new("list"), Shop::LINKS[0]) },
  "/cycle" => -> { cycle },
  "/garbage" => -> { Array.new(1_000) { |item| Shop::Item.new("garbage #{item}") } },
  "/string" => -> { (Shop::LINKS[1] ||= +"") << ("x" * 1_000) },
  "/class" => -> { Shop::CARTS << Class.new(Shop::Item) },
  "/shrink" => -> { Shop::CARTS.clear },
  "/gc" => -> { GC.start }
}

app = lambda do |env|
  number += 1
  body = ["done"]
  case (path = env["PATH_INFO"])
  when "/raise"
    Shop::CARTS << Shop::Item.new("raise")
    raise "as it should"
  when "/exit"
    Shop::CARTS << Shop::Item.new("exit")
    exit
  when "/after" then env["rack.after_reply"] << -> { Shop::CARTS << Shop::Item.new("after") }
  when "/finished" then env["rack.response_finished"] << ->(*) { Shop::CARTS << Shop::Item.new("finished") }
  when "/environment" then Shop::CARTS << env
  when "/read"
    env["rack.input"].read
    Shop::CARTS << Shop::Item.new("read")
  when "/end_thread"
    Shop::CARTS << Shop::Item.new("end_thread")
    Thread.exit
  when "/hijack"
    env["rack.hijack"].call.then { |socket| socket.write("HTTP/1.1 204 No Content\r\n\r\n") && socket.close }
    Shop::CARTS << Shop::Item.new("hijack")
  when "/traced" then body = [ObjectSpace.respond_to?(:allocation_sourcefile) ? ObjectSpace.allocation_sourcefile(Object.new).to_s : "not loaded"]
  when "/threads" then body = [Thread.list.map(&:name).join(",")]
  when "/big" then body = Array.new(200) { |item| "part #{item}" }
  else keep[path]&.call
  end
  headers = { "x-number" => number.to_s }
  headers["x-long"] = "v" * 500 if path == "/header"
  [200, headers, body]
end

Middleware.new(app)
