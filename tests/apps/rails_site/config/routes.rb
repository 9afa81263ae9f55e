# frozen_string_literal: true

Rails.application.routes.draw do
  root "notes#index"
  resources :notes, only: %i[index create show]
  post "login" => "sessions#create"
  delete "login" => "sessions#destroy"
  get "live" => "live#index"
  get "parts" => "pages#parts"
  get "greeting" => "pages#greeting"
  get "broken" => "pages#broken"
  get "process" => "pages#whoami"
end
