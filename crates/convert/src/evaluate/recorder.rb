# Runs a puma.rb and prints what it sets: a JSON list of [name, value, line]. Needs no Puma.

require "json"

path = ARGV.fetch(0)
FOUND = []

class Recorder < BasicObject
  def method_missing(name, *args, **options, &block)
    line = ::Kernel.caller_locations(1, 1).first&.lineno || 1
    value = if block then true
            elsif args.empty? then true
            elsif args.length == 1 then args.first
            else args
            end
    value = value.map(&:to_s) if ::Array === value
    value = value.to_s if ::Symbol === value
    if name == :ssl_bind
      query = options.map { |key, text| "#{key}=#{text}" }.join("&")
      name, value = :bind, "ssl://#{args[0]}:#{args[1]}?#{query}"
    end
    ::FOUND << [name.to_s, value, line]
    nil
  end

  def respond_to_missing?(*) = true

  # What the file may read of its settings, and what it may call of Ruby.
  def get(*) = nil
  def require(*args) = ::Kernel.require(*args)
  def require_relative(*args) = ::Kernel.require(::File.expand_path(args.first, ::File.dirname(::ARGV.fetch(0))))
  def puts(*) = nil
  def warn(*) = nil
  def raise(*args) = ::Kernel.raise(*args)
  def Integer(*args) = ::Kernel.Integer(*args)
  def format(*args) = ::Kernel.format(*args)
  def self.const_missing(name) = ::Object.const_get(name)
end

recorder = Recorder.new
recorder.instance_eval(File.read(path), path)
found = FOUND.map { |name, value, line| [name, value.nil? ? nil : value, line] }
puts
puts JSON.generate(found)
