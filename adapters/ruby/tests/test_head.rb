# frozen_string_literal: true

require "driver"

# Responses to HEAD.
class HeadTest < Minitest::Test
  # RFC 9110 §9.3.2: the headers are those of GET, as far as they are known. An empty body says nothing: `Rack::Head` leaves it where there was another.
  def test_a_head_has_the_length_of_the_body_that_is_there
    source = <<~'RUBY'
      lambda do |env|
        body = { "/one" => ["hello"], "/two" => ["hel", "lo"], "/none" => [], "/blank" => [""], "/parts" => ["hello"].each }.fetch(env["PATH_INFO"], ["no"])
        headers = env["QUERY_STRING"] == "own" ? { "content-length" => "7" } : {}
        [env["QUERY_STRING"] == "304" ? 304 : 200, headers, body]
      end
    RUBY
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "app.rb"), source)
      Driver::Worker.with("app.rb", directory: folder) do |worker|
        length = ->(path, query = "") { worker.get(path, method: "HEAD", query: query).then { |response| [response.field("content-length"), response.body] } }
        assert_equal [[["5"], ""], [["5"], ""]], [length.call("/one"), length.call("/two")]
        assert_equal [[[], ""]] * 3, [length.call("/none"), length.call("/blank"), length.call("/parts")]
        assert_equal [[["7"], ""], [[], ""]], [length.call("/one", "own"), length.call("/one", "304")]
      end
    end
  end
end
