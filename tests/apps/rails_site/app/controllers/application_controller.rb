# frozen_string_literal: true

class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception
  helper_method :visitor

  def visitor
    session[:visitor]
  end
end
