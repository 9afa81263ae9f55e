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

    # Ruby's own methods, whatever a class makes of them.
    module Own
      # Gives the result of Ruby's method for this object.
      def self.of(owner, name)
        owner.instance_method(name)
      end

      CLASS = of(::Kernel, :class)
      IVARS = of(::Kernel, :instance_variables)
      IVAR = of(::Kernel, :instance_variable_get)
      METHODS = of(::Kernel, :singleton_methods)
      METHOD = of(::Kernel, :singleton_method)
      NAME = of(::Module, :name)
      CONSTANTS = of(::Module, :constants)
      CONSTANT = of(::Module, :const_get)
      DEFINED = of(::Module, :const_defined?)
      AUTOLOAD = of(::Module, :autoload?)
      SOURCE = of(::Module, :const_source_location)
      CVARS = of(::Module, :class_variables)
      CVAR = of(::Module, :class_variable_get)
      MEMBERS = of(::Struct, :members)
      VALUES = of(::Struct, :to_a)
      HASH_SIZE = of(::Hash, :size)
      ARRAY_SIZE = of(::Array, :size)
      SET_SIZE = of(::Set, :size)
      QUEUE_SIZE = of(::Thread::Queue, :size)
      SIZED_QUEUE_SIZE = of(::Thread::SizedQueue, :size)
      AT = of(::Array, :at)
      PAIRS = of(::Hash, :to_a)
      SET = of(::Set, :to_a)
    end

    private_constant :NODES, :HOPS, :ELEMENTS, :OWN, :STANDARD, :RUBYS_GLOBALS, :NOT_THE_APPLICATIONS, :Own

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
      return unless applications_module?(one, name)

      instance_variables_of(one) { |variable, value| add("#{name}.#{variable}", value) }
      settings(one, name)
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

    # What methods of a module give that are blocks which have closed over it: `set` of Sinatra, `class_attribute` of Rails.
    def settings(one, name)
      Own::METHODS.bind_call(one, false).each do |method|
        block = block_of(Own::METHOD.bind_call(one, method))
        next if block.nil?

        scope = block.binding
        scope.local_variables.each { |variable| add("#{name}.#{method}", scope.local_variable_get(variable)) }
      rescue NameError, ArgumentError
        next # it has gone meanwhile, or is not written in Ruby
      end
    end

    # Ruby has no name for it, but it is among what the method refers to.
    def block_of(method)
      entry = ObjectSpace.reachable_objects_from(method)&.find { |inner| ObjectSpace::InternalObjectWrapper === inner }
      entry && ObjectSpace.reachable_objects_from(entry).find { |inner| Proc === inner }
    end

    # Whether a constant is defined by code that is neither Ruby's nor ours.
    def applications?(one, constant)
      file, = Own::SOURCE.bind_call(one, constant)
      !file.nil? && !file.start_with?(OWN, *STANDARD)
    end

    # Whether a module is the application's, and still what its name stands for. Nothing on the way to it is loaded for this.
    def applications_module?(one, name)
      *outer, last = name.split("::").map(&:to_sym)
      home = outer.reduce(Object) do |inner, part|
        return false unless loaded?(inner, part)

        Own::CONSTANT.bind_call(inner, part, false)
      end
      loaded?(home, last) && Own::CONSTANT.bind_call(home, last, false).equal?(one) && applications?(home, last)
    end

    def loaded?(home, constant)
      Module === home && Own::DEFINED.bind_call(home, constant, false) && !Own::AUTOLOAD.bind_call(home, constant, false) # rubocop:disable Style/CaseEquality -- as in `leaf?`
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

    # An object that Ruby refuses to show is left out.
    def look(name, value, hops)
      look_into(name, value, hops)
    rescue StandardError
      nil
    end

    def look_into(name, value, hops)
      size = size_of(value)
      if size
        @sizes[Growth.cleaned(name)] += size
        elements(name, value, hops) if size <= ELEMENTS
        return if Set === value # rubocop:disable Style/CaseEquality -- as in `leaf?`
      else
        parts(name, value, hops)
      end
      variables = Own::IVARS.bind_call(value)
      return if variables.empty?

      start = start(name, value, hops)
      variables.each { |variable| add("#{start}#{variable}", Own::IVAR.bind_call(value, variable), hops + 1) }
    end

    def size_of(value)
      case value
      when Hash then Own::HASH_SIZE.bind_call(value)
      when Array then Own::ARRAY_SIZE.bind_call(value)
      when Set then Own::SET_SIZE.bind_call(value)
      when SizedQueue then Own::SIZED_QUEUE_SIZE.bind_call(value)
      when Queue then Own::QUEUE_SIZE.bind_call(value)
      end
    end

    def elements(name, value, hops)
      case value
      when Hash
        Own::PAIRS.bind_call(value).each do |key, inner|
          add("#{name}[]", key, hops + 1) unless leaf?(key)
          add("#{name}[#{shown(key)}]", inner, hops) unless leaf?(inner)
        end
      when Array
        Own::ARRAY_SIZE.bind_call(value).times { |at| add("#{name}[]", Own::AT.bind_call(value, at), hops) } # a copy would share its memory
      when Set then Own::SET.bind_call(value).each { |inner| add("#{name}[]", inner, hops) }
      end
    end

    # What something other than a container leads to, beside its variables.
    def parts(name, value, hops)
      case value
      when Proc then block(value)
      when Method then add(class_of(value.receiver), value.receiver, HOPS)
      when Struct
        start = start(name, value, hops)
        Own::MEMBERS.bind_call(value).zip(Own::VALUES.bind_call(value)) { |member, inner| add("#{start}#{member}", inner, hops + 1) }
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
    def start(name, value, hops)
      hops < HOPS ? "#{name}." : "#{class_of(value)}#"
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

    # Nothing that an application puts into it. A `BasicObject` has no `is_a?`, and another may have one of its own.
    def leaf?(value)
      case value
      when String, Symbol, NilClass, TrueClass, FalseClass, Numeric, Module, Regexp, Range, Random, IO then true
      else false
      end
    end
  end
end
