# frozen_string_literal: true

require "objspace"

module Keepwarm
  # Counts the live objects of this process by class, and says how much memory they take and which lines made those that are new.
  class Census
    OWN = "#{__dir__}/"
    OUR_CLASSES = "Keepwarm::"
    REAL_CLASS = ::Kernel.instance_method(:class)
    CLASS_NAME = ::Module.instance_method(:name)
    private_constant :OWN, :OUR_CLASSES, :REAL_CLASS, :CLASS_NAME

    # From here on, Ruby notes which line makes an object.
    def initialize
      GC.start
      @since = GC.count
      @directory = "#{Dir.pwd}/"
      ObjectSpace.trace_object_allocations_start
      @tracer = tracer
    end

    # Objects by class, bytes by line, and the bytes of all. `ours`: strings that are not the application's.
    def take(ours)
      GC.start(full_mark: true, immediate_sweep: true)
      notes = ObjectSpace.memsize_of(@tracer) # before anything is noted in them that the sum has not
      memory = ObjectSpace.memsize_of_all(BasicObject) - notes - ours.sum { |text| ObjectSpace.memsize_of(text) }
      kinds = {}.compare_by_identity
      traced = []
      count(kinds, traced)
      [by_name(kinds), by_line(traced), memory]
    end

    # Frees what Ruby has noted, unless somebody else has it note that, too.
    def finish
      ObjectSpace.trace_object_allocations_stop
      ObjectSpace.trace_object_allocations_clear unless ObjectSpace.allocation_sourcefile(Object.new)
    end

    private

    # Ruby's notes, which are memory of an object as any other. It has no name but in a dump.
    def tracer
      plain = ObjectSpace.each_object(Object).select { |object| ObjectSpace.internal_class_of(object).equal?(Object) }
      plain.find { |object| ObjectSpace.dump(object).include?("allocation_info_tracer") }
    end

    # Makes no object: the walk would find it. The class is the one that an object points to, which needs no method of its own.
    def count(kinds, traced)
      ObjectSpace.each_object do |object|
        kind = ObjectSpace.internal_class_of(object)
        kinds[kind] = (kinds[kind] || 0) + 1
        traced << object if ObjectSpace.allocation_generation(object)
      end
    end

    def by_name(kinds)
      counts = Hash.new(0)
      kinds.each do |kind, count|
        name = name_of(kind)
        counts[name] += count if name
      end
      counts["Hash"] -= 1 # `kinds`
      counts["Array"] -= 1 # `traced`
      counts
    end

    # The name of a class, nil for ours and those that are Ruby's own.
    def name_of(kind)
      return nil unless Class === kind # rubocop:disable Style/CaseEquality -- the class may have an `is_a?` of its own

      kind = kind.superclass while kind.singleton_class?
      name = CLASS_NAME.bind_call(kind)
      name ||= "#{ancestor_of(kind)} (anonymous class)"
      name.start_with?(OUR_CLASSES) ? nil : Growth.cleaned(name)
    end

    def ancestor_of(kind)
      kind = kind.superclass until CLASS_NAME.bind_call(kind)
      CLASS_NAME.bind_call(kind)
    end

    def by_line(traced)
      files = Hash.new { |all, file| all[file] = file.start_with?(OWN, "<internal:") ? nil : Hash.new(0) }
      traced.each do |object|
        file = ObjectSpace.allocation_sourcefile(object)
        lines = files[file] if file && ObjectSpace.allocation_generation(object) >= @since
        lines[ObjectSpace.allocation_sourceline(object)] += ObjectSpace.memsize_of(object) if lines
      end
      bytes = Hash.new(0)
      files.each { |file, lines| lines&.each { |line, size| bytes[Growth.cleaned("#{short(file)}:#{line}")] += size } }
      bytes
    end

    # A path as a person would say it: below the directory of the application, or of the gems.
    def short(path)
      return path.delete_prefix(@directory) if path.start_with?(@directory) && !path.include?("/gems/")

      path[%r{/gems/([^/]+/.*)\z}, 1] || path[%r{/ruby/\d[^/]*/(.*)\z}, 1] || path[%r{/vendor_ruby/(.*)\z}, 1] || path
    end
  end
end
