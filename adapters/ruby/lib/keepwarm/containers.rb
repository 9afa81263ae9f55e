# frozen_string_literal: true

require "rbconfig"
require "set"

module Keepwarm
  # The sizes of arrays, hashes, sets and queues that the application can reach by a name: from constants, variables of classes and modules, globals,
  # threads, and from the application itself.
  #
  # It calls no method of an object of the application: each is Ruby's own, bound to it. It triggers no autoload.
  class Containers
    NODES = 100_000 # objects that are looked at
    HOPS = 4 # from object to object, after which a name begins anew with the class
    ELEMENTS = 200 # of a container whose elements are looked at, too

    OWN = "#{__dir__}/"
    STANDARD = [RbConfig::CONFIG["rubylibdir"], RbConfig::CONFIG["rubyarchdir"]].map { |path| "#{path}/" }.freeze
    RUBYS_GLOBALS = /\A\$(\W|\d+|-\w|_|LOAD_PATH|LOADED_FEATURES|PROGRAM_NAME|FILENAME|DEBUG|VERBOSE|std(in|out|err))\z/.freeze
    NOT_THE_APPLICATIONS = /\A(Keepwarm|Gem|Bundler)(::|\z)/.freeze # modules, with all that is in them
    LEAVES = [String, Symbol, Numeric, Regexp, Module, Range, Random, IO, NilClass, TrueClass, FalseClass].freeze

    # Ruby's own methods, whatever a class makes of them.
    module Own
      # Gives the result of Ruby's method for this object.
      def self.of(owner, name)
        owner.instance_method(name)
      end

      CLASS = of(::Kernel, :class)
      IVARS = of(::Kernel, :instance_variables)
      IVAR = of(::Kernel, :instance_variable_get)
      NAME = of(::Module, :name)
      CONSTANTS = of(::Module, :constants)
      CONSTANT = of(::Module, :const_get)
      AUTOLOAD = of(::Module, :autoload?)
      SOURCE = of(::Module, :const_source_location)
      CVARS = of(::Module, :class_variables)
      CVAR = of(::Module, :class_variable_get)
      MEMBERS = of(::Struct, :members)
      VALUES = of(::Struct, :to_a)
      AT = of(::Array, :at)
      PAIRS = of(::Hash, :to_a)
      SET = of(::Set, :to_a)
    end

    SIZES = {
      ::Hash => Own.of(::Hash, :size), ::Array => Own.of(::Array, :size), ::Set => Own.of(::Set, :size),
      ::Thread::Queue => Own.of(::Thread::Queue, :size), ::Thread::SizedQueue => Own.of(::Thread::SizedQueue, :size)
    }.freeze
    private_constant :NODES, :HOPS, :ELEMENTS, :OWN, :STANDARD, :RUBYS_GLOBALS, :NOT_THE_APPLICATIONS, :LEAVES, :Own, :SIZES

    def initialize(app)
      @app = app
    end

    # Name => size, and whether the search has come to its end.
    def sizes
      @sizes = Hash.new(0)
      @seen = {}.compare_by_identity
      @queue = []
      quietly { roots }
      at = 0
      while at < @queue.size && @seen.size < NODES
        look(*@queue[at])
        at += 1
      end
      [@sizes.delete_if { |_, size| size.zero? }, at == @queue.size]
    ensure
      @sizes = @seen = @queue = nil
    end

    private

    # Without the warning that Ruby gives of a deprecated constant.
    def quietly
      warns = Warning[:deprecated]
      Warning[:deprecated] = false if warns
      yield
    ensure
      Warning[:deprecated] = true if warns
    end

    # -- roots --------------------------------------------------------------------------------------------------------

    def roots
      ObjectSpace.each_object(Module).each { |one| in_module(one) }
      global_variables.each { |name| add(name.to_s, eval(name.to_s)) unless name.match?(RUBYS_GLOBALS) } # rubocop:disable Security/Eval -- no other way
      instance_variables_of(TOPLEVEL_BINDING.receiver) { |name, value| add("main.#{name}", value) }
      Thread.list.each { |thread| in_thread(thread) }
      add(class_of(@app), @app, HOPS)
    end

    def in_module(one)
      name = Own::NAME.bind_call(one)
      return if name.nil? || NOT_THE_APPLICATIONS.match?(name)

      constants(one, name)
      return unless applications?(Object, name)

      instance_variables_of(one) { |variable, value| add("#{name}.#{variable}", value) }
      Own::CVARS.bind_call(one, false).each { |variable| add("#{name}::#{variable}", Own::CVAR.bind_call(one, variable)) }
    rescue NameError, RuntimeError
      nil # a class variable that a parent has got since then: Ruby refuses to read it
    end

    def constants(one, name)
      Own::CONSTANTS.bind_call(one, false).each do |constant|
        next if Own::AUTOLOAD.bind_call(one, constant, false)

        value = Own::CONSTANT.bind_call(one, constant, false)
        add(one.equal?(Object) ? constant.to_s : "#{name}::#{constant}", value) if !leaf?(value) && applications?(one, constant)
      end
    end

    # Whether a constant is defined by code that is neither Ruby's nor ours.
    def applications?(one, constant)
      file, = Own::SOURCE.bind_call(one, constant)
      !file.nil? && !file.start_with?(OWN, *STANDARD)
    end

    def in_thread(thread)
      thread.keys.each { |key| add("Thread.current[:#{key}]", thread[key]) unless key.start_with?("__") }
      thread.thread_variables.each { |key| add("Thread.current.thread_variable_get(:#{key})", thread.thread_variable_get(key)) }
    end

    # -- the search ---------------------------------------------------------------------------------------------------

    # Something that has this name. `hops`: how far it is from one that a person has given.
    def add(name, value, hops = 0)
      return if leaf?(value) || @seen.key?(value)

      @seen[value] = true
      @queue << [name, value, hops]
    end

    def look(name, value, hops)
      _, size = SIZES.find { |kind, _| kind === value } # rubocop:disable Style/CaseEquality -- no method of the value is to be called
      return container(name, value, hops, size.bind_call(value)) if size

      case value
      when Proc then block(value)
      when Method then add(class_of(value.receiver), value.receiver, HOPS)
      when Struct
        Own::MEMBERS.bind_call(value).zip(Own::VALUES.bind_call(value)) { |member, inner| add("#{start(name, value, hops, ".")}#{member}", inner, hops + 1) }
      end
      instance_variables_of(value) { |variable, inner| add("#{start(name, value, hops, ".")}#{variable}", inner, hops + 1) }
    end

    def container(name, value, hops, size)
      @sizes[Growth.cleaned(name)] += size
      instance_variables_of(value) { |variable, inner| add("#{start(name, value, hops, ".")}#{variable}", inner, hops + 1) } unless Set === value # rubocop:disable Style/CaseEquality
      return if size > ELEMENTS

      case value
      when Hash
        Own::PAIRS.bind_call(value).each do |key, inner|
          add("#{name}[]", key, hops + 1) unless leaf?(key)
          add("#{name}[#{shown(key)}]", inner, hops) unless leaf?(inner)
        end
      when Array then size.times { |at| add("#{name}[]", Own::AT.bind_call(value, at), hops) } # a copy would share its memory
      when Set then Own::SET.bind_call(value).each { |inner| add("#{name}[]", inner, hops) }
      end
    end

    # What a block has closed over.
    def block(value)
      file, line = value.source_location
      return if file.nil? || file.start_with?(OWN, *STANDARD)

      scope = value.binding
      where = "#{File.basename(file)}:#{line}"
      scope.local_variables.each { |variable| add("#{variable} (block at #{where})", scope.local_variable_get(variable)) }
      add(class_of(scope.receiver), scope.receiver, HOPS)
    rescue ArgumentError
      nil # one that is not written in Ruby
    end

    def instance_variables_of(value)
      Own::IVARS.bind_call(value).each { |name| yield name, Own::IVAR.bind_call(value, name) }
    end

    # How the name of a part of `value` begins.
    def start(name, value, hops, mark)
      hops < HOPS ? name + mark : "#{class_of(value)}#"
    end

    # The name of its class, or of the nearest that has one.
    def class_of(value)
      kind = Own::CLASS.bind_call(value)
      kind = kind.superclass while (name = Own::NAME.bind_call(kind)).nil?
      name
    end

    # A key of a hash, if it is one that can be read.
    def shown(key)
      case key
      when Symbol, Integer then key.inspect
      when String then key.bytesize <= 80 ? key.inspect : "..."
      else ""
      end
    end

    def leaf?(value)
      LEAVES.any? { |kind| kind === value } # rubocop:disable Style/CaseEquality -- a `BasicObject` has no `is_a?`
    end
  end
end
