# frozen_string_literal: true

require "keepwarm/errors"

module Keepwarm
  # From the entry on the command line to the application: a rackup file, or a Ruby file that returns or defines it.
  #
  # An exception of the application's own code passes through; `EntryError` says in whole sentences what else is wrong.
  module Entry
    USUAL = %w[App Application].freeze # constants
    private_constant :USUAL

    module_function

    def load(entry)
      path = File.expand_path(entry)
      raise EntryError, "file #{entry.inspect} not found in #{Dir.pwd}" unless File.file?(path)

      app = path.end_with?(".ru") ? rackup(path) : ruby(path)
      require "uri" if defined?(::Rack) # its lint takes it for loaded
      return app if app.respond_to?(:call)

      raise EntryError, "#{entry} returned #{described(app)}, which is not a Rack application: it has no method `call`"
    end

    # The version of the application's Rack, `[3, 0]`. An application that loads none is served by the rules of Rack 3.
    def rack_version
      return [3, 0] unless defined?(::Rack)

      release = defined?(::Rack::RELEASE) ? ::Rack::RELEASE : ::Rack.release
      release.to_s.split(".").first(2).map(&:to_i)
    end

    # What the application's own Rack makes of a rackup file. Rack 2 gives the options beside it.
    def rackup(path)
      require_rack(path)
      app = ::Rack::Builder.parse_file(path)
      app.is_a?(Array) ? app.first : app
    end

    def require_rack(path)
      require "rack"
      require "rack/builder"
    rescue ::LoadError => error
      raise if error.path && error.path !~ %r{\Arack(/builder)?\z}

      raise EntryError, "#{File.basename(path)} needs the gem rack, which #{RUBY_ENGINE} #{RUBY_VERSION} (#{RbConfig.ruby}) " \
                        "does not have: add `gem \"rack\"` to the Gemfile and run `bundle install`, or run `gem install rack`"
    end

    # What a Ruby file returns, or the application that it defines.
    def ruby(path)
      $LOADED_FEATURES << path # a `require` of it by its own parts does not run it twice
      value = TOPLEVEL_BINDING.dup.eval(File.read(path), path)
      return value if value.respond_to?(:call) && !value.is_a?(Method)

      defined_by(path) || raise(EntryError, <<~TEXT.tr("\n", " ").strip)
        #{File.basename(path)} returned #{described(value)}, and defines none of the constants #{names(path).join(", ")}: end it with a
        line that returns the application, or write a config.ru that ends with `run` and the application
      TEXT
    end

    def defined_by(path)
      found = names(path).find { |name| Object.const_defined?(name) && Object.const_get(name).respond_to?(:call) }
      return Object.const_get(found) if found
      return ::Sinatra::Application if defined?(::Sinatra::Application) # `require "sinatra"`, and routes at the top level

      ::Rails.application if defined?(::Rails.application)
    end

    # `my_shop.rb`: MyShop, App, Application.
    def names(path)
      own = File.basename(path, ".rb").split(/[^A-Za-z0-9]+/).map { |part| part[0].to_s.upcase + part[1..].to_s }.join
      [own, *USUAL].uniq.grep(/\A[A-Z]\w*\z/)
    end

    def described(thing)
      thing.nil? ? "nothing" : "an object of #{thing.class}"
    end
    private_class_method :rackup, :require_rack, :ruby, :defined_by, :names, :described
  end
end
