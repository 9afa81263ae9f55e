# frozen_string_literal: true

class RememberJob < ActiveJob::Base
  def perform(name)
    File.write(Rails.root.join("done-#{name}"), "")
  end
end
