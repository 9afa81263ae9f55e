# frozen_string_literal: true

class NotesChannel < ApplicationCable::Channel
  def subscribed
    stream_from "notes"
  end

  def echo(data)
    transmit({ "echo" => data["text"], "visitor" => visitor, "process" => Process.pid })
  end
end
