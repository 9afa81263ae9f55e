//! Sizes that matter: around the powers of two that buffers have.

use keepwarm_net::simulation::Rng;

/// Up to `most`, often at the edge of a buffer.
pub(crate) fn near_boundary(rng: &mut Rng, most: usize) -> usize {
    let size = match rng.below(4) {
        0 => rng.size(most),
        1 => rng.below(4),
        _ => {
            let bits = rng.below(22);
            let around = (1_usize << bits) * *rng.pick(&[1, 1, 1, 3]);
            (around + rng.below(5)).saturating_sub(2)
        }
    };
    size.min(most)
}
