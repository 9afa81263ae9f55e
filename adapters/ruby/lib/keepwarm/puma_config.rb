# frozen_string_literal: true

require "keepwarm/hooks"
require "keepwarm/log"
require "keepwarm/puma_directives"

module Keepwarm
  # A configuration file of Puma, evaluated as Puma does it: with `self` an object that has Puma's directives.
  #
  # `keepwarm run` evaluates it once, to learn `settings`; each worker does it again before the application is loaded, for its hooks. A file that raises is
  # no reason not to serve: what stands before that line holds, and `remarks` says so.
  class PumaConfig
    # `line`: nil where none is known. `text`: what is not used, and what to write instead.
    Remark = Struct.new(:file, :line, :text)

    # Where the file sees the constants of every Ruby file, and none of the adapter's.
    EVALUATE = TOPLEVEL_BINDING.eval("->(keepwarm_object, keepwarm_file) { keepwarm_object.instance_eval(File.read(keepwarm_file), keepwarm_file, 1) }")
    private_constant :EVALUATE

    attr_reader :settings, :remarks

    def self.read(path)
      new.tap { |config| config.load(path) }
    end

    def initialize
      @settings = {} # name of a key of Keepwarm => its value as text
      @remarks = []
      @hooks = [] # name of a list in `Hooks`, or BEFORE_EACH_FORK; block
      @files = []
    end

    def load(path)
      path = File.expand_path(path, @files.empty? ? Dir.pwd : File.dirname(@files.last))
      return if @files.include?(path)

      @files << path
      EVALUATE.call(PumaDirectives.new(self), path)
    rescue StandardError, ScriptError, SystemExit => error
      @remarks << Remark.new(path, line_of(error, path), failure(error))
    end

    # A value of Puma's that a Keepwarm key replaces.
    def set(key, value)
      @settings[key] = value.to_s
    end

    def hook(list, block)
      @hooks << [list, block] if block
    end

    def remark(text)
      place = caller_locations.find { |location| @files.include?(location.path) }
      @remarks << Remark.new(place&.path || @files.last, place&.lineno, text)
    end

    # Gives the hooks to this process. Puma counts workers from 0.
    def register_hooks
      once = blocks(:BEFORE_FORK)
      each = blocks(:BEFORE_EACH_FORK)
      # `Keepwarm.before_fork` blocks run in reverse, and before each fork; Puma's `before_fork` before the first.
      Hooks::BEFORE_FORK << proc do |number|
        once.shift.call until once.empty?
        each.each { |block| block.call(number - 1) }
      end
      others = @hooks.reject { |list, _| %i[BEFORE_FORK BEFORE_EACH_FORK].include?(list) }
      others.each { |list, block| Hooks.const_get(list) << proc { |number| block.call(number - 1) } }
    end

    # For `keepwarm run`: one line for each thing, parts joined by tabs. `end` is the last: what comes without it is not whole.
    def report
      lines = @settings.map { |key, value| ["set", key, value] }
      lines << ["hooks", @hooks.size]
      lines.concat(@remarks.map { |remark| ["remark", remark.file, remark.line || 0, remark.text] })
      lines << ["end"]
      lines.map { |parts| "#{parts.map { |part| part.to_s.scrub.gsub(/[\t\r\n]+/, " ") }.join("\t")}\n" }.join
    end

    private

    def blocks(list)
      @hooks.select { |name, _| name == list }.map(&:last)
    end

    def line_of(error, path)
      return error.message[/\A#{Regexp.escape(path)}:(\d+):/, 1]&.to_i if error.is_a?(SyntaxError)

      (error.backtrace_locations || []).find { |location| location.path == path }&.lineno
    end

    def failure(error)
      message = error.message.to_s.lines.first.to_s.strip.sub(/\A#{Regexp.union(@files)}:\d+: /, "")
      what = error.is_a?(SystemExit) ? "it called exit" : "#{error.class}: #{message}"
      "the rest of the file is not used: #{what}"
    end
  end
end
