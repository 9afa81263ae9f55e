# frozen_string_literal: true

# Plays Keepwarm on the other end of a worker's wire.
#
# Its codec is written from spec/wire.md alone and shares nothing with the adapter's, so that the two check one another.

require "io/nonblock"
require "io/wait"
require "json"
require "minitest"
require "rbconfig"
require "socket"
require "tempfile"
require "tmpdir"

module Driver
  TESTS = __dir__
  APPS = File.join(TESTS, "apps")
  PROGRAM = File.expand_path("../exe/keepwarm-worker", TESTS)
  PATIENCE = 30.0 # seconds: a worker that says nothing for so long has failed, however slow the machine
  TYPES = {
    0x01 => :HELLO, 0x02 => :WELCOME, 0x10 => :REQUEST, 0x11 => :DATA, 0x12 => :TRAILERS, 0x13 => :RESPONSE, 0x14 => :INFORM,
    0x15 => :WANT, 0x16 => :CREDIT, 0x17 => :RESET, 0x18 => :HALF_CLOSE, 0x19 => :HIJACK, 0x20 => :TEXT, 0x21 => :BINARY, 0x22 => :CLOSE, 0x30 => :PING, 0x31 => :PONG,
    0x32 => :DRAIN, 0x33 => :BUSY, 0x34 => :SAMPLES, 0x35 => :LEAKS, 0x36 => :GROWTH
  }.freeze
  NUMBERS = TYPES.invert.freeze
  END_BODY, EXPECT, REPEATS, EARLY_HINTS, WEBSOCKET, TRAILERS, USER = 1, 2, 4, 8, 16, 32, 64
  CHUNKED = 2**64 - 1

  module_function

  # A frame.
  def pack(name, stream = 0, payload = "", flags = 0)
    [payload.bytesize, NUMBERS.fetch(name), flags, stream].pack("NCCN") + payload.b
  end

  # A string block.
  def block(strings)
    text = strings.map(&:b).join("\0").b
    [strings.size, text.bytesize].pack("nN") + text
  end

  # The strings of a block, and what follows it.
  def unblock(payload)
    count, length = payload.unpack("nN")
    text = payload.byteslice(6, length)
    raise "a string block longer than its frame" if text.bytesize != length

    strings = count.zero? ? [] : (text + "\0").scan(/[^\0]*\0/n).map { |one| one.chomp("\0") }
    raise "a string block with another number of strings" if strings.size != count

    [strings, payload.byteslice((6 + length)..)]
  end

  # Waits until the block holds.
  def eventually
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      raise Minitest::Assertion, "it did not come to pass within #{PATIENCE} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

      sleep 0.005
    end
  end

  # A frame from the worker.
  Frame = Struct.new(:name, :flags, :stream, :payload) do
    def end?
      flags & END_BODY != 0
    end
  end

  # What a worker said on one stream, until it ended it.
  class Response
    attr_accessor :status, :fields, :body, :frames, :informs, :reset, :close_after, :wants

    def initialize
      @fields = []
      @body = "".b
      @frames = []
      @informs = []
      @wants = 0
    end

    # The values of a field.
    def field(name)
      @fields.select { |one, _| one.casecmp?(name) }.map(&:last)
    end

    # The types of the frames, in order.
    def names
      @frames.map(&:name)
    end

    # Whether the worker has ended the stream.
    def over?
      last = @frames.last
      !last.nil? && (%i[RESET HIJACK].include?(last.name) || (%i[RESPONSE DATA].include?(last.name) && last.end?))
    end

    def json
      JSON.parse(@body)
    end
  end

  # A template (spec/wire.md §9). Ends with `stop`.
  class Template
    attr_reader :pid, :ready

    # Yields it, and stops it.
    def self.with(source, *options, files: {})
      Dir.mktmpdir do |folder|
        { "app.rb" => source, **files }.each { |name, text| File.write(File.join(folder, name), text) }
        template = new(folder, options)
        yield template
      ensure
        template&.stop
      end
    end

    def initialize(folder, options = [])
      @mine, theirs = UNIXSocket.pair
      @log = Tempfile.new("keepwarm-template-log")
      @pid = Process.spawn(
        { "KEEPWARM_FD" => "3", "RACK_ENV" => nil }, RbConfig.ruby, "-w", PROGRAM, "app.rb", "--preload", *options,
        in: File::NULL, out: @log.path, err: %i[child out], 3 => theirs, chdir: folder, pgroup: true
      )
      theirs.close
      @number = 0
      @ready = line
    end

    # What it says next; nil when it has gone.
    def line
      raise "the template says nothing; its log:\n#{log}" unless @mine.wait_readable(PATIENCE)

      @mine.gets&.chomp
    end

    # The id of a new worker with these, or nil: what it said instead is in `refused`.
    def fork_worker(wire, log)
      File.open(log.path, "a") { |file| @mine.sendmsg("fork #{@number += 1}\n", 0, nil, Socket::AncillaryData.unix_rights(wire, file, file)) }
      @said = line
      @said.to_s[/\Aforked (\d+)\z/, 1]&.to_i or raise "not forked: #{@said}; its log:\n#{self.log}"
    end

    def worker(&block)
      Worker.with("app.rb", template: self, &block)
    end

    # The status of a worker that ends.
    def reap(pid)
      @mine.write("reap #{pid}\n")
      line[/\Aended #{pid} exit (\d+)\z/, 1].to_i
    end

    def log
      File.read(@log.path)
    end

    def stop
      @mine.close
      Process.kill("KILL", -@pid)
      Process.wait(@pid)
      @log.close!
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end
  end

  # A worker process on a wire that the test holds the other end of. Ends with `stop`.
  class Worker
    # `passed`: sockets that came with HIJACK.
    attr_reader :hello, :pid, :held, :mine, :passed
    attr_accessor :auto_credit, :stream

    # Yields it, and stops it.
    def self.with(*arguments, **more)
      worker = new(*arguments, **more)
      yield worker
    ensure
      worker&.stop
    end

    # `template`: forks it, in place of a start.
    def initialize(entry, *options, hello: true, stream_credit: 65_536, connection_credit: 1 << 20, workers: 1, env: {}, directory: APPS, template: nil)
      @mine, theirs = UNIXSocket.pair
      theirs.nonblock = false # as Keepwarm gives it
      @log = Tempfile.new("keepwarm-log")
      environment = { "KEEPWARM_FD" => "3", "RACK_ENV" => nil }.merge(env)
      @template = template
      @pid = template&.fork_worker(theirs, @log) || Process.spawn(
        environment, RbConfig.ruby, "-w", PROGRAM, entry, *options,
        in: File::NULL, out: @log.path, err: %i[child out], 3 => theirs, chdir: directory, pgroup: true
      )
      theirs.close
      @buffer = "".b
      @passed = []
      @stream = 0
      @responses = Hash.new { |all, id| all[id] = Response.new }
      @held = [] # frames that belong to no stream
      @auto_credit = true
      about = Driver.block(["app", "test", "worker", "0", "workers", workers.to_s, "software", "keepwarm/0.0.1"])
      send(Driver.pack(:WELCOME, 0, [1, 1, stream_credit, connection_credit].pack("nnNN") + about))
      @hello = read if hello
      raise "no HELLO; its log:\n#{log}" if hello && @hello.nil?
    end

    # -- the wire -------------------------------------------------------------------------------------------------------

    # Bytes as they are. What the worker writes meanwhile is read: it may have to write before it reads on.
    def send(data)
      data = data.b
      until data.empty?
        readable, writable = IO.select([@mine], [@mine], nil, PATIENCE)
        if writable.nil?
          raise "the worker reads no more; its log:\n#{log}"
        elsif !writable.empty?
          sent = @mine.write_nonblock(data, exception: false)
          data = data.byteslice(sent..) if sent.is_a?(Integer)
        elsif !readable.empty?
          receive
        end
      end
    end

    # The next frame; nil at the wire's end.
    def read
      while (frame = take_frame).nil?
        raise "the worker says nothing; its log:\n#{log}" unless @mine.wait_readable(PATIENCE)

        return nil unless receive
      end
      frame
    end

    # Takes what comes next into the buffer; nil at the wire's end.
    def receive
      data, _, _, *beside = @mine.recvmsg(1 << 18, 0, 1 << 10, scm_rights: true)
      return nil if data.nil? || data.empty?

      beside.each { |one| @passed.concat(one.unix_rights || []) }
      @buffer << data
    rescue Errno::ECONNRESET
      nil
    end

    # Sends a REQUEST; gives its stream. `length` nil: that of `body`.
    def request(path = "/", send: true, **more)
      @stream += 1
      data = request_frame(@stream, path, **more)
      return [@stream, data] unless send

      self.send(data)
      @stream
    end

    def request_frame(id, path, method: "GET", fields: [], body: "", flags: END_BODY, length: nil, query: "", protocol: "HTTP/1.1",
                      scheme: "http", script: "", raw_path: nil, server: ["shop.example", "8080"], client: ["192.0.2.7", "52144"])
      strings = [method, protocol, scheme, path, raw_path || (script + path), query, script, *server, *client, *fields.flatten]
      Driver.pack(:REQUEST, id, [length || body.bytesize].pack("Q>") + Driver.block(strings) + body.b, flags)
    end

    def data(stream, body = "", last: false)
      send(Driver.pack(:DATA, stream, body, last ? END_BODY : 0))
    end

    def reset(stream, code = 1, reason = "")
      send(Driver.pack(:RESET, stream, [code].pack("n") + reason))
    end

    def credit(stream, amount)
      send(Driver.pack(:CREDIT, stream, [amount].pack("N")))
    end

    # -- responses ------------------------------------------------------------------------------------------------------

    # Reads frames, filing each with its stream, until the block holds for that stream's response; gives it.
    def take(stream)
      response = @responses[stream]
      until yield response
        frame = read
        raise "the worker closed the wire; its log:\n#{log}" if frame.nil?

        file(frame)
      end
      response
    end

    # Adds a frame to the response that it is part of.
    def file(frame)
      return @held << frame if frame.stream.zero?

      response = @responses[frame.stream]
      raise "#{frame} after the end of its stream" if response.over?

      response.frames << frame
      case frame.name
      when :RESPONSE then file_response(response, frame)
      when :DATA then file_data(response, frame)
      when :INFORM then response.informs << [frame.payload.unpack1("n"), Driver.unblock(frame.payload.byteslice(2..))[0].each_slice(2).to_a]
      when :RESET then response.reset = [frame.payload.unpack1("n"), frame.payload.byteslice(2..).force_encoding("UTF-8")]
      when :WANT then response.wants += 1
      end
    end

    # The whole response on `stream`.
    def response(stream)
      take(stream, &:over?)
    end

    # A request and its whole response.
    def get(path = "/", **more)
      response(request(path, **more))
    end

    # -- the process ----------------------------------------------------------------------------------------------------

    # What the worker has printed so far.
    def log
      raw_log.gsub("\x1F\n", "\n")
    end

    # As the worker has written it, with the marks of lines that the next one continues (spec/wire.md §1).
    def raw_log
      File.read(@log.path, encoding: "UTF-8").scrub
    end

    # What the worker prints while the block runs and until it has served one more request.
    def log_of
      before = log.size
      yield
      get("/")
      log[before..]
    end

    # How often the worker went to sleep while it answered PINGs, each read when it slept again. It needs to once for each. The least of some attempts:
    # other things make it wait, too, on a busy machine.
    def sleeps(pings = 20)
      Array.new(3) { sleeps_of_one_attempt(pings) }.min
    end

    def sleeps_of_one_attempt(pings)
      before = sleeps_so_far
      pings.times do
        send(Driver.pack(:PING, 0, "12345678"))
        @mine.wait_readable(PATIENCE)
        wait_until_asleep
        raise Minitest::Assertion, "no PONG" unless read.name == :PONG

        wait_until_asleep
      end
      sleeps_so_far - before
    end

    # Until the main thread is blocked in a system call.
    def wait_until_asleep
      Driver.eventually { status.include?("State:\tS") }
    end

    # Waits until it has begun to respond, and can write no more.
    def wait_until_full
      raise "the worker says nothing; its log:\n#{log}" unless @mine.wait_readable(PATIENCE)

      sent = nil
      Driver.eventually do
        before, sent = sent, waiting_bytes
        sent == before && status.include?("State:\tS")
      end
    end

    # Bytes that it has written and nobody has read (FIONREAD).
    def waiting_bytes
      size = [0].pack("i")
      @mine.ioctl(0x541B, size)
      size.unpack1("i")
    end

    def sleeps_so_far
      status[/^voluntary_ctxt_switches:\s+(\d+)/, 1].to_i
    end

    def status
      File.read("/proc/#{@pid}/status")
    end

    # Sends DRAIN and waits for the end; gives the exit status.
    def drain
      send(Driver.pack(:DRAIN))
      wait
    end

    # Ends the wire, as Keepwarm does that dies.
    def hang_up
      @mine.close
    end

    # The exit status.
    def wait
      return @template.reap(@pid) if @template

      Driver.eventually { @status ||= Process.wait2(@pid, Process::WNOHANG)&.last }
      @status.exitstatus
    end

    def signal(name)
      Process.kill(name, @pid)
    end

    # Ends the worker, whatever it does.
    def stop
      @mine.close unless @mine.closed?
      Process.kill("KILL", -@pid) unless @status
      Process.wait(@pid) unless @status
      @log.close!
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end

    private

    def take_frame
      length, number, flags, stream = @buffer.unpack("NCCN")
      return nil if stream.nil? || @buffer.bytesize < 10 + length

      payload = @buffer.byteslice(10, length)
      @buffer = @buffer.byteslice((10 + length)..)
      Frame.new(TYPES.fetch(number), flags, stream, payload)
    end

    def file_response(response, frame)
      raise "a second RESPONSE" if response.status

      response.status = frame.payload.unpack1("n")
      strings, body = Driver.unblock(frame.payload.byteslice(2..))
      raise "too much body in a RESPONSE" if body.bytesize > 65_536

      response.body = body
      response.fields = strings.each_slice(2).to_a
      response.close_after = frame.flags & 2 != 0
    end

    def file_data(response, frame)
      raise "too much in a DATA" if frame.payload.bytesize > 65_536

      response.body << frame.payload
      return if !@auto_credit || frame.payload.empty?

      credit(0, frame.payload.bytesize)
      credit(frame.stream, frame.payload.bytesize) unless frame.end?
    end
  end
end
