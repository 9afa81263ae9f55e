# frozen_string_literal: true

module ApplicationCable
  class Connection < ActionCable::Connection::Base
    identified_by :visitor

    # Whoever is logged in: by the session of the pages.
    def connect
      session = cookies.encrypted["_notebook_session"] || {}
      self.visitor = session["visitor"] || reject_unauthorized_connection
    end
  end
end
