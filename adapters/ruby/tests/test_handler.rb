# frozen_string_literal: true

require "driver"
require "keepwarm/handler"

# `rackup -s keepwarm`
class HandlerTest < Minitest::Test
  LIB = File.expand_path("../lib", __dir__)

  # A folder with a `keepwarm` in it that shows how it was called.
  def with_keepwarm
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "keepwarm"), "#!/bin/sh\necho called: \"$@\"\n")
      File.chmod(0o755, File.join(folder, "keepwarm"))
      File.write(File.join(folder, "config.ru"), "run ->(env) { [200, {}, []] }\n")
      yield folder
    end
  end

  def rackup(folder, code, path: "#{folder}:#{ENV.fetch("PATH")}")
    IO.popen({ "PATH" => path }, [RbConfig.ruby, "-I", LIB, "-e", code], err: %i[child out], chdir: folder, &:read)
  end

  def test_rackup_starts_keepwarm
    with_keepwarm do |folder|
      said = rackup(folder, 'require "rack"; Rack::Server.start(server: "keepwarm", config: "config.ru", Host: "::1", Port: 9393, environment: "none")')
      assert_match(/\Acalled: run \S*config\.ru --bind \[::1\]:9393\n\z/, said)
    end
  end

  def test_rackup_of_rack_3
    with_keepwarm do |folder|
      code = 'module Rackup; module Handler; def self.register(*names) = (puts names.inspect); end; end; ' \
             'require "rackup/handler/keepwarm"; Rackup::Handler::Keepwarm.run(nil, config: "config.ru")'
      assert_equal "[:keepwarm, Keepwarm::Handler]\n", rackup(folder, "$stdout.sync = true; #{code}").lines.first
      assert_includes rackup(folder, "$stdout.sync = true; #{code}"), "called: run config.ru --bind 127.0.0.1:8080"
    end
  end

  def test_what_it_cannot_do_is_said
    assert_includes assert_raises(RuntimeError) { Keepwarm::Handler.run(->(_) {}) }.message, "keepwarm run config.ru"
    with_keepwarm do |folder|
      code = 'require "keepwarm/handler"; Keepwarm::Handler.run(nil, config: "config.ru")'
      assert_includes rackup(folder, code, path: "/nowhere"), "program `keepwarm` not found in PATH"
      File.write(File.join(folder, "config.ru"), "require 'keepwarm/handler'; Keepwarm::Handler.run(nil, config: 'config.ru')\n")
      Driver::Worker.with("config.ru", hello: false, directory: folder) do |worker|
        assert_equal 1, worker.wait
        assert_includes worker.log, "is already a worker of Keepwarm"
      end
    end
  end

  def test_the_gem_is_whole
    spec = Dir.chdir(File.expand_path("..", __dir__)) { Gem::Specification.load("keepwarm.gemspec") }
    assert_includes spec.files, "lib/rackup/handler/keepwarm.rb"
    assert_includes spec.files, "exe/keepwarm-worker"
    assert_equal [], spec.dependencies
  end
end
