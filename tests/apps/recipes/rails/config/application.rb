# frozen_string_literal: true

require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "action_controller/railtie"
require "sidekiq"

module Shop
  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults 6.1
    config.secret_key_base = "0" * 64
    config.hosts.clear
    config.eager_load = true
    # The recipe's lines.
  end
end
