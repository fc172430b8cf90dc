"""How the rates of OOD-PL are drawn: one look for each curve of a figure."""

#: Two families of colours: each belongs to one kind of loop or step.
BLUES = ("#0072B2", "#56B4E9", "#003A5D")
REDS = ("#D55E00", "#E69F00", "#8A3B00", "#C9B400")
GREENS = ("#009E73", "#66C2A5", "#00533C")
GREY = "#777777"
