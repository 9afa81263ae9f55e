# frozen_string_literal: true

require "rails"
require "active_record/railtie"
require "active_storage/engine"
require "action_controller/railtie"
require "action_view/railtie"
require "action_cable/engine"
require "sprockets/railtie"

module Notebook
  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults 6.1
    config.secret_key_base = "0" * 64
    config.active_storage.service = :local
    config.active_record.maintain_test_schema = false
    config.hosts.clear
    # As an application says it that is served by its server alone.
    config.public_file_server.enabled = true
    config.public_file_server.headers = { "Cache-Control" => "public, max-age=3600" }
    config.assets.compile = true
    config.action_cable.mount_path = "/cable"
    config.action_cable.disable_request_forgery_protection = true
    config.logger = ActiveSupport::Logger.new($stdout)
    config.log_level = :warn
    if Rails.env.development?
      config.cache_classes = false
      config.eager_load = false
      config.consider_all_requests_local = true
    else
      config.cache_classes = true
      config.eager_load = true
      config.consider_all_requests_local = false
    end
  end
end
