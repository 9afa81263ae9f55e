# frozen_string_literal: true

class PagesController < ApplicationController
  # Rails 6.1 chunks this body itself.
  def parts
    render :parts, stream: true, layout: false
  end

  def greeting
    render plain: "first greeting\n"
  end

  def broken
    raise "broken on demand"
  end

  def whoami
    render json: { pid: Process.pid, env: Rails.env, threads: request.env["rack.multithread"] }
  end
end
