# frozen_string_literal: true

Rails.application.routes.draw do
  get "order/:name" => "orders#create"
end
