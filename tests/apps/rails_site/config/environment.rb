# frozen_string_literal: true

require_relative "application"

Rails.application.initialize!

# Once, by whichever process comes first: what `rails db:schema:load` does at a deployment.
File.open(Rails.root.join("db/lock"), "w") do |lock|
  lock.flock(File::LOCK_EX)
  ActiveRecord::Base.connection.table_exists?("notes") || load(Rails.root.join("db/schema.rb"))
end
