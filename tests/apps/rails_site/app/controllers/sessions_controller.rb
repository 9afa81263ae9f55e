# frozen_string_literal: true

class SessionsController < ApplicationController
  def create
    return render(plain: "wrong password", status: :forbidden) unless params[:password] == "sesame"

    reset_session
    session[:visitor] = params[:name]
    flash[:notice] = "Welcome, #{params[:name]}"
    redirect_to root_path
  end

  def destroy
    reset_session
    redirect_to root_path
  end
end
