# frozen_string_literal: true

class NotesController < ApplicationController
  before_action(only: :create) { head :unauthorized unless visitor }

  def index
    @notes = Note.order(:id)
  end

  def create
    note = Note.create!(title: params[:title], author: visitor, file: params[:file])
    ActionCable.server.broadcast("notes", { title: note.title, author: note.author })
    redirect_to note_path(note)
  end

  def show
    @note = Note.find(params[:id])
  end
end
