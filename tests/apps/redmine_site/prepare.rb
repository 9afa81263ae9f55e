# frozen_string_literal: true

# Makes the database of an instance of Redmine, in the folder of its code: `REDMINE_INSTANCE=NAME ruby prepare.rb`. What `rake db:migrate` and
# `rake redmine:load_default_data` do, in one process that waits for no disk.

ENV["RAILS_ENV"] = "production"
require File.expand_path("config/application")
Rails.application.config.eager_load = false # classes look at tables that are not there
require File.expand_path("config/environment")

database = ActiveRecord::Base.connection
database.execute("PRAGMA synchronous = OFF")
database.execute("PRAGMA journal_mode = MEMORY")
ActiveRecord::Migration.verbose = false
database.migration_context.migrate
ActiveRecord::Base.descendants.each(&:reset_column_information)
Setting.clear_cache
Redmine::DefaultData::Loader.load("en")
User.find_by_login("admin").update_columns(must_change_passwd: false, language: "en")
