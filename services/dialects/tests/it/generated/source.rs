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
        let mut text = format!("{mark}{}", self.one(ODD));
        if self.once_in(6) {
            for _ in 0..self.pick(8) {
                let code = u32::try_from(self.pick(0x1_0000)).unwrap_or(0);
                text.push(char::from_u32(code).unwrap_or('\u{1f9ff}'));
            }
        }
        text
    }

    /// Some JSON.
    pub(crate) fn json(&mut self, depth: usize) -> String {
        match self.pick(if depth == 0 { 5 } else { 7 }) {
            0 => "null".to_owned(),
            1 => "true".to_owned(),
            2 => format!("-{}", self.pick(1000)),
            3 => "1.50e-7".to_owned(),
            4 => crate::json::Json::of(self.text()).compact(),
            5 => {
                let items: Vec<_> = (0..self.pick(3)).map(|_| self.json(depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let members =
                    (0..self.pick(3)).map(|at| format!("\"k{at}\":{}", self.json(depth - 1)));
                let members: Vec<_> = members.collect();
                format!("{{{}}}", members.join(","))
            }
        }
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
