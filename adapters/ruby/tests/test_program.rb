# frozen_string_literal: true

require "driver"
require "fileutils"

# `keepwarm COMMAND`: which program it becomes, and with which Ruby for workers. Copies of `echo` and `env` stand for the program.
class ProgramTest < Minitest::Test
  ADAPTER = File.expand_path("..", __dir__)
  PLATFORM = "#{RbConfig::CONFIG["host_cpu"]}-linux"

  def setup
    @folder = File.realpath(Dir.mktmpdir)
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def program(path, name = "echo")
    path = File.join(@folder, path)
    FileUtils.mkdir_p(File.dirname(path))
    FileUtils.cp("/usr/bin/#{name}", path)
    path
  end

  def launch(*arguments, adapter: ADAPTER, ruby: RbConfig.ruby, status: 0, **variables)
    env = { "PATH" => "/usr/bin:/bin", "KEEPWARM_BIN" => nil, **variables.transform_keys(&:to_s) }
    said = IO.popen(env, [ruby, File.join(adapter, "exe/keepwarm"), *arguments], err: %i[child out], chdir: @folder, &:read)
    assert_equal status, $?.exitstatus, said
    said
  end

  def variables(**more)
    launch(KEEPWARM_BIN: program("env", "env"), **more).lines.to_h { |line| line.chomp.split("=", 2) }
  end

  # A gem as it is installed, without a program.
  def installed
    FileUtils.cp_r([File.join(ADAPTER, "exe"), File.join(ADAPTER, "lib")], FileUtils.mkdir_p(File.join(@folder, "gem")).first)
    File.join(@folder, "gem")
  end

  def test_arguments_and_exit_status_are_the_programs
    echo = program("echo")
    assert_equal "run config.ru --bind a b\n", launch("run", "config.ru", "--bind", "a b", KEEPWARM_BIN: echo)
    assert_equal "\n", launch(KEEPWARM_BIN: echo)
    assert_equal "; false\n", launch("; false", KEEPWARM_BIN: "./echo")
    launch(KEEPWARM_BIN: program("false", "false"), status: 1)
  end

  def test_the_program_of_the_gem_comes_before_one_in_path
    adapter = installed
    program("path/keepwarm", "false")
    program("gem/exe/#{PLATFORM}/keepwarm")
    assert_equal "status\n", launch("status", adapter: adapter, PATH: "#{@folder}/path")
  end

  def test_a_program_in_path_is_taken_and_scripts_are_passed_over
    script = File.join(@folder, "first/keepwarm")
    FileUtils.mkdir_p(File.dirname(script))
    File.write(script, "#!/bin/sh\nexec #{RbConfig.ruby} #{ADAPTER}/exe/keepwarm\n")
    File.chmod(0o755, script)
    program("second/keepwarm")
    assert_equal "status\n", launch("status", PATH: "#{@folder}/first::#{@folder}/second")
  end

  def test_no_program_is_an_error_with_the_ways_out
    said = launch("run", status: 1, PATH: "/nowhere")
    assert_match(/\Akeepwarm: program `keepwarm` not found for #{PLATFORM}: it is neither in PATH nor in this gem \(.*\); .*`gem install keepwarm`\), or set KEEPWARM_BIN to its path\n\z/, said)
  end

  def test_a_wrong_variable_is_an_error_and_not_another_program
    program("path/keepwarm")
    File.write(File.join(@folder, "script"), "#!/bin/sh\n")
    File.chmod(0o755, File.join(@folder, "script"))
    ["/nowhere/keepwarm", @folder, File.join(@folder, "script")].each do |wrong|
      said = launch(status: 1, KEEPWARM_BIN: wrong, PATH: "#{@folder}/path")
      assert_equal "keepwarm: KEEPWARM_BIN=#{wrong} is not an executable program; set it to the path of the program `keepwarm`, or unset it\n", said
    end
  end

  def test_a_program_that_this_system_cannot_run
    other = program("other")
    File.binwrite(other, File.binread(other).tap { |content| content[18, 2] = "\x02\x00".b }) # SPARC
    assert_equal "keepwarm: #{other} cannot be run: it is built for another machine; set KEEPWARM_BIN to one that this system (#{PLATFORM}) can run\n",
                 launch(status: 1, KEEPWARM_BIN: other)
    lost = program("lost")
    File.binwrite(lost, File.binread(lost).sub("/lib64/ld-linux".b, "/lib64/no-linux".b).sub("/lib/ld-linux".b, "/lib/no-linux".b))
    assert_equal "keepwarm: #{lost} cannot be run: the loader that it is linked to is missing on this system; " \
                 "set KEEPWARM_BIN to a static program\n", launch(status: 1, KEEPWARM_BIN: lost)
  end

  def test_workers_run_with_this_ruby
    directory = File.dirname(RbConfig.ruby)
    assert_equal "#{directory}:/nowhere", variables(PATH: "/nowhere")["PATH"]
    shim = File.join(@folder, "shims/ruby")
    FileUtils.mkdir_p(File.dirname(shim))
    File.write(shim, "#!/bin/sh\n")
    File.chmod(0o755, shim)
    assert_equal "#{directory}:#{@folder}/shims:#{directory}", variables(PATH: "#{@folder}/shims:#{directory}")["PATH"]
    assert_equal "/nowhere:#{directory}", variables(PATH: "/nowhere:#{directory}")["PATH"]
  end

  def test_the_bundle_goes_with_it
    found = variables(BUNDLE_GEMFILE: "/site/Gemfile", RUBYOPT: "-W1")
    assert_equal ["/site/Gemfile", "-W1"], found.values_at("BUNDLE_GEMFILE", "RUBYOPT")
  end
end
