//! What generated things are made from: a list of numbers, which proptest makes up and makes shorter and smaller. Where the
//! list has ended every choice is the first one, so that small lists are small things.

/// Made of it so far, and what is left.
#[derive(Debug)]
pub(crate) struct Source {
    choices: Vec<u16>,
    at: usize,
    marks: usize,
    odd: bool,
}

/// What texts end with, now and then.
const ODD: &[&str] = &[
    "",
    " ",
    "\n",
    "\"\\/",
    "é\u{2028}\u{85}🦀",
    "\r\n\t",
    "</system>",
    "\u{1}\u{7f}",
    "data: [DONE]\n\n",
    "{\"a\":1}",
];

impl Source {
    /// `odd`: what is made may be wrong in its own dialect.
    pub(crate) fn new(choices: Vec<u16>, odd: bool) -> Self {
        Self {
            choices,
            at: 0,
            marks: 0,
            odd,
        }
    }

    /// A number below `count`.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(choice) % count.max(1)
    }

    /// Whether what comes once in so many times comes now.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.pick(times) == times - 1
    }

    /// Whether something wrong is to come.
    pub(crate) fn wrong_once_in(&mut self, times: usize) -> bool {
        self.odd && self.once_in(times)
    }

    /// One of these.
    pub(crate) fn one<T: Clone>(&mut self, list: &[T]) -> T {
        let at = self.pick(list.len());
        list[at].clone()
    }

    /// A word that comes once.
    pub(crate) fn mark(&mut self) -> String {
        self.marks += 1;
        format!("zq{}zq", self.marks)
    }

    /// A text with a mark.
    pub(crate) fn text(&mut self) -> String {
        let mark = self.mark();
        let odd = self.one(ODD);
        format!("{mark}{odd}")
    }

    /// A number that comes once, from 0 to 1.
    pub(crate) fn fraction(&mut self) -> String {
        self.marks += 1;
        format!("0.5{:04}7", self.marks)
    }

    /// A whole number that comes once.
    pub(crate) fn whole(&mut self) -> String {
        self.marks += 1;
        format!("77{:04}77", self.marks)
    }

    /// The numbers below `count` in some order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..count).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let at = self.pick(left.len());
            order.push(left.remove(at));
        }
        order
    }
}
