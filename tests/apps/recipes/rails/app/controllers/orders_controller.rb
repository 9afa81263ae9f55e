# frozen_string_literal: true

class OrdersController < ActionController::Base
  def create
    RememberJob.perform_later(params[:name])
    render plain: "ordered #{params[:name]}\n"
  end
end
