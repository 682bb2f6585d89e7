import uPlot from "uplot/dist/uPlot";
export default uPlot;
