require "logger"

def pay = raise(ArgumentError, "no such card")

run(lambda do |env|
  next [200, {}, ["ready"]] if env["PATH_INFO"] == "/"
  pay unless env["PATH_INFO"] == "/logged"
  begin
    pay
  rescue ArgumentError => error
    Logger.new($stderr).error(error)
  end
  [200, {}, ["logged"]]
end)
