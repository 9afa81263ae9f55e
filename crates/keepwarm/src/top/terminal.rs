//! The terminal while the screen is shown: raw, and on its alternate screen, which leaves what was there before as it was.

use std::io::{self, Stdout, Write};

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Restores the terminal when it is dropped; a panic restores it before it is reported.
pub(super) struct TakenTerminal(Terminal<CrosstermBackend<Stdout>>);

impl TakenTerminal {
    pub(super) fn take() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
        enable_raw_mode()?;
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, paint: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.0.draw(|frame| paint(frame.area(), frame.buffer_mut())).map(drop)
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Whatever fails here, nobody could be told.
fn restore() {
    let mut out = io::stdout();
    let _ = execute!(out, Show, LeaveAlternateScreen);
    let _ = out.flush();
    let _ = disable_raw_mode();
}
